! A program with `use mpi_f08`: the job's communicator is fetched in each iteration.
!
!     mpif90.mpich -O2 -o sums dq/dq.f90 sums.f90 $(python -m resize_lib.c flags dq)
!     dq submit --sizes 1,2,4 -- ./sums 1000 500                      items, iterations

program sums
    use dq
    use mpi_f08
    implicit none
    type(dq_session) :: job
    type(dq_part_t) :: part
    type(MPI_Comm) :: world
    real(dq_real), pointer :: x(:, :)
    real(dq_real) :: mine, total = 0
    integer :: n = 1000, iterations = 500, i

    if (command_argument_count() > 0) n = argument(1)
    if (command_argument_count() > 1) iterations = argument(2)
    job = dq_open()
    call dq_block(job, "x", n, 1, DQ_DOUBLE)
    call dq_loop(job, iterations)
    do while (dq_next(job))
        world%mpi_val = dq_comm(job)
        x => dq_items(job, "x")
        part = dq_part(job, "x")
        if (dq_step(job) == 0) x(1, :) = [(real(dq_row(part, i), dq_real), i=1, size(x, 2))]
        x = x + 1
        mine = sum(x)
        call MPI_Allreduce(mine, total, 1, MPI_DOUBLE_PRECISION, MPI_SUM, world)
    end do
    if (.not. dq_left(job)) then
        if (dq_rank(job) == 0) print '(a, i0, a, i0)', "sum ", nint(total, dq_long), &
            " expected ", int(n, dq_long)*(n + 1)/2 + int(n, dq_long)*iterations
    end if
    call dq_close(job)

contains

    integer function argument(number)
        integer, intent(in) :: number
        character(20) :: text
        call get_command_argument(number, text)
        read (text, *) argument
    end function
end program
