! LU factorization with ScaLAPACK's pdgetrf on a grid that grows and shrinks; lu.c in Fortran.
!
!     gfortran -O2 -o lu_fortran dq/dq.f90 lu.f90 $(python -m resize_lib.c flags --scalapack dq)
!     dq submit --sizes 1,2,4 -- ./lu
!
! Each turn factors the same matrix afresh and solves A x = A (1 ... 1): it says on which grid, and
! how far x is from ones. It stops if that is too far.

program lu
    use dq
    implicit none

    type(dq_session) :: job
    type(dq_part_t) :: part
    real(dq_real), pointer :: a(:, :), x(:, :)
    real(dq_real), allocatable :: factors(:, :), ones(:, :)
    real(dq_real), external :: pdlange
    real(dq_real) :: wrong, unused(1)
    integer, allocatable :: pivots(:)
    integer :: n = 600, nb = 32, turns = 40
    integer :: desca(9), descx(9), i, j, info, nprow, npcol, myrow, mycol

    call argument(1, n)
    call argument(2, nb)
    call argument(3, turns)
    job = dq_open()
    call dq_block_cyclic(job, "A", n, n, nb, nb, DQ_DOUBLE)
    call dq_block_cyclic(job, "x", n, 1, nb, nb, DQ_DOUBLE)
    call dq_loop(job, turns)
    do while (dq_next(job))
        a => dq_matrix(job, "A")
        x => dq_matrix(job, "x")
        part = dq_part(job, "A")
        call dq_desc(job, "A", desca)
        call dq_desc(job, "x", descx)
        if (dq_step(job) == 0) then
            do j = 1, int(part%cols)
                do i = 1, int(part%rows)
                    a(i, j) = element(int(dq_row(part, i)), int(dq_col(part, j)))
                end do
            end do
        end if

        factors = a
        allocate (ones, mold=x)
        allocate (pivots(part%rows + part%mb))
        ones = 1
        call pdgemm('N', 'N', n, 1, n, 1d0, a, 1, 1, desca, ones, 1, 1, descx, 0d0, x, 1, 1, descx)
        call pdgetrf(n, n, factors, 1, 1, desca, pivots, info)
        if (info == 0) &
            call pdgetrs('N', n, 1, factors, 1, 1, desca, pivots, x, 1, 1, descx, info)
        x = x - 1
        wrong = pdlange('M', n, 1, x, 1, 1, descx, unused)
        deallocate (factors, ones, pivots)

        call dq_grid(job, nprow, npcol, myrow, mycol)
        if (myrow == 0 .and. mycol == 0) &
            print '("turn ", i0, " grid ", i0, "x", i0, " error ", es8.1)', dq_step(job), nprow, &
            npcol, wrong
        flush (6)
        if (info /= 0 .or. .not. wrong < 1d-8) error stop "pdgetrf has gone wrong"
    end do
    call dq_close(job)

contains

    ! The same on every grid; the diagonal dominates.
    real(dq_real) function element(row, col)
        integer, intent(in) :: row, col
        element = sin(1d0*row + 3d0*col)
        if (row == col) element = element + n
    end function

    subroutine argument(number, value)
        integer, intent(in) :: number
        integer, intent(inout) :: value
        character(20) :: text
        call get_command_argument(number, text)
        if (text /= "") read (text, *) value
    end subroutine
end program
