! Heat in a block: stencil3d.c in Fortran. The lower wall of the first axis is hot, the other walls
! of the first two axes are cold, the third axis is a ring.
!
!     gfortran -O2 -o stencil3d dq/dq.f90 stencil3d.f90 $(python -m resize_lib.c flags dq)
!     dq submit --sizes 1,2,4 -- ./stencil3d 40 100                   cells along an axis, steps

program stencil3d
    use dq
    implicit none
    type(dq_session) :: job
    real(dq_real), pointer :: u(:, :, :)
    real(dq_real), allocatable :: next(:, :, :)
    real(dq_real), allocatable, target :: whole(:, :, :)
    integer :: n = 40, steps = 100

    if (command_argument_count() > 0) n = argument(1)
    if (command_argument_count() > 1) steps = argument(2)
    job = dq_open()
    call dq_cartesian(job, "u", [n, n, n], DQ_DOUBLE, halo=[1, 1, 1], &
                      periodic=[.false., .false., .true.])
    call dq_loop(job, steps)
    do while (dq_next(job))
        call dq_field(job, "u", u)             ! with global indices, from 1; ghosts around
        if (dq_step(job) == 0) call fill(dq_box(job, "u"))
        call dq_exchange(job, "u")
        call step(dq_box(job, "u"))
    end do
    if (.not. dq_left(job)) then
        allocate (whole(n, n, n))
        call dq_gather(job, "u", c_loc(whole))
        if (dq_rank(job) == 0) print '(a, es24.17)', "sum ", weighed()
    end if
    call dq_close(job)

contains

    subroutine fill(box)
        type(dq_box_t), intent(in) :: box
        integer(dq_long) :: i, j, k
        do k = box%start(3), box%start(3) + box%count(3) - 1
            do j = box%start(2), box%start(2) + box%count(2) - 1
                do i = box%start(1), box%start(1) + box%count(1) - 1
                    u(i, j, k) = real(mod((i - 1)*7 + (j - 1)*11 + (k - 1)*13, 17_dq_long), &
                                      dq_real)/17
                end do
            end do
        end do
        ! Ghosts beyond a border: the program's boundary values.
        if (box%start(1) == 1) u(0, :, :) = 1
    end subroutine

    subroutine step(box)
        type(dq_box_t), intent(in) :: box
        real(dq_real) :: around
        integer(dq_long) :: i, j, k, first(3), last(3)
        first = box%start(:3)
        last = first + box%count(:3) - 1
        allocate (next(first(1):last(1), first(2):last(2), first(3):last(3)))
        do k = first(3), last(3)
            do j = first(2), last(2)
                do i = first(1), last(1)
                    around = u(i - 1, j, k) + u(i + 1, j, k)
                    around = around + (u(i, j - 1, k) + u(i, j + 1, k))
                    around = around + (u(i, j, k - 1) + u(i, j, k + 1))
                    next(i, j, k) = u(i, j, k) + 0.1_dq_real*(around - 6*u(i, j, k))
                end do
            end do
        end do
        u(first(1):last(1), first(2):last(2), first(3):last(3)) = next
        deallocate (next)
    end subroutine

    ! A sum in which every cell has a weight of its own, in the order of the program in C.
    real(dq_real) function weighed()
        integer :: i, j, k, at
        weighed = 0
        at = 0
        do i = 1, n
            do j = 1, n
                do k = 1, n
                    weighed = weighed + whole(i, j, k)*(mod(at, 101) + 1)
                    at = at + 1
                end do
            end do
        end do
    end function

    integer function argument(number)
        integer, intent(in) :: number
        character(20) :: text
        call get_command_argument(number, text)
        read (text, *) argument
    end function
end program
