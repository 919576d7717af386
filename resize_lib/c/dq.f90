! DQ from Fortran: a running MPI program that grows and shrinks. dq.h says what each function does,
! docs/c.md has the whole story. Compile this file with your program: modules belong to a compiler.
!
!     use dq
!     type(dq_session) :: job
!     real(dq_real), pointer :: a(:, :)
!
!     job = dq_open()
!     call dq_block_cyclic(job, "A", m, n, mb, nb, DQ_DOUBLE)
!     call dq_loop(job, 100)
!     do while (dq_next(job))
!         a => dq_matrix(job, "A")          ! fetch it each turn: a resize moves it
!         if (dq_step(job) == 0) call fill(a)
!         call work(dq_comm(job), a)
!     end do
!     call dq_close(job)
!
! A mistake ends the job with one line. After `call dq_on_error(DQ_RETURN)` it does not: functions
! return -1 (pointers are not associated), and dq_error() has the line, which subroutines clear.

module dq
    use, intrinsic :: iso_c_binding
    use, intrinsic :: iso_fortran_env, only: error_unit
    implicit none
    private

    public :: dq_session, dq_part_t, dq_box_t, dq_real, dq_long
    public :: dq_open, dq_close, dq_on_error, dq_error
    public :: dq_block_cyclic, dq_block, dq_cartesian, dq_value
    public :: dq_loop, dq_next, dq_step, dq_resized, dq_left
    public :: dq_rank, dq_size, dq_comm, dq_grid
    public :: dq_part, dq_local, dq_matrix, dq_items, dq_row, dq_col
    public :: dq_box, dq_field, dq_exchange, dq_gather
    public :: dq_blacs, dq_desc
    public :: c_loc, c_ptr, c_f_pointer, c_null_ptr

    integer, parameter :: dq_real = c_double, dq_long = c_int64_t

    integer(c_int), parameter, public :: DQ_BYTE = 1, DQ_INT = 2, DQ_INT64 = 3, DQ_FLOAT = 4, &
        DQ_DOUBLE = 5, DQ_COMPLEX = 6, DQ_DOUBLE_COMPLEX = 7
    integer(c_int), parameter, public :: DQ_ABORT = 0, DQ_RETURN = 1

    type :: dq_session
        private
        type(c_ptr) :: handle = c_null_ptr
    end type

    ! This rank's part of an array; see dq.h. Indices from 0, as there.
    type, bind(C) :: dq_part_t
        type(c_ptr) :: data = c_null_ptr
        integer(c_int64_t) :: rows = 0, cols = 0, ld = 1
        integer(c_int64_t) :: first = 0
        integer(c_int64_t) :: mb = 0, nb = 0
        integer(c_int64_t) :: myrow = 0, mycol = 0, nprow = 1, npcol = 1
    end type

    ! This rank's block of a Cartesian array, column-major. Unlike in dq.h `start` counts from 1.
    ! Ranks are on the grid `dims` column-major: 12 ranks on two dimensions are 3 x 4 here.
    type, bind(C) :: dq_box_t
        type(c_ptr) :: data = c_null_ptr
        integer(c_int64_t) :: ndims = 0
        integer(c_int64_t) :: start(16) = 1, count(16) = 1, stored(16) = 1, halo(16) = 0
        integer(c_int64_t) :: shape(16) = 1, dims(16) = 1, coords(16) = 0
    end type

    ! call dq_field(job, name, u): a pointer to this rank's block of a Cartesian array of DQ_DOUBLE,
    ! with its ghosts. Its indices are the global ones, so u(i, j) is item (i, j) of the whole array.
    interface dq_field
        procedure field_1, field_2, field_3, field_4
    end interface

    interface
        type(c_ptr) function c_open(argc, argv) bind(C, name="dq_open")
            import :: c_ptr
            type(c_ptr), value :: argc, argv
        end function
        integer(c_int) function c_close(dq) bind(C, name="dq_close")
            import :: c_ptr, c_int
            type(c_ptr), value :: dq
        end function
        subroutine c_on_error(mode) bind(C, name="dq_on_error")
            import :: c_int
            integer(c_int), value :: mode
        end subroutine
        type(c_ptr) function c_error() bind(C, name="dq_error")
            import :: c_ptr
        end function
        integer(c_int) function c_block_cyclic(dq, name, pointer, m, n, mb, nb, kind) &
                bind(C, name="dq_block_cyclic")
            import :: c_ptr, c_int, c_int64_t, c_char
            type(c_ptr), value :: dq, pointer
            character(kind=c_char), intent(in) :: name(*)
            integer(c_int64_t), value :: m, n, mb, nb
            integer(c_int), value :: kind
        end function
        integer(c_int) function c_block(dq, name, pointer, n, width, kind) bind(C, name="dq_block")
            import :: c_ptr, c_int, c_int64_t, c_char
            type(c_ptr), value :: dq, pointer
            character(kind=c_char), intent(in) :: name(*)
            integer(c_int64_t), value :: n, width
            integer(c_int), value :: kind
        end function
        integer(c_int) function c_cartesian(dq, name, pointer, ndims, shape, halo, periodic, dims, &
                kind) bind(C, name="dq_cartesian")
            import :: c_ptr, c_int, c_int64_t, c_char
            type(c_ptr), value :: dq, pointer
            character(kind=c_char), intent(in) :: name(*)
            integer(c_int), value :: ndims, kind
            integer(c_int64_t), intent(in) :: shape(*)
            integer(c_int), intent(in) :: halo(*), periodic(*), dims(*)
        end function
        integer(c_int) function c_box(dq, name, box) bind(C, name="dq_box")
            import :: c_ptr, c_int, c_char, dq_box_t
            type(c_ptr), value :: dq
            character(kind=c_char), intent(in) :: name(*)
            type(dq_box_t), intent(inout) :: box
        end function
        integer(c_int) function c_exchange(dq, name) bind(C, name="dq_exchange")
            import :: c_ptr, c_int, c_char
            type(c_ptr), value :: dq
            character(kind=c_char), intent(in) :: name(*)
        end function
        integer(c_int) function c_gather(dq, name, whole) bind(C, name="dq_gather")
            import :: c_ptr, c_int, c_char
            type(c_ptr), value :: dq, whole
            character(kind=c_char), intent(in) :: name(*)
        end function
        integer(c_int) function c_value(dq, name, address, bytes) bind(C, name="dq_value")
            import :: c_ptr, c_int, c_size_t, c_char
            type(c_ptr), value :: dq, address
            character(kind=c_char), intent(in) :: name(*)
            integer(c_size_t), value :: bytes
        end function
        integer(c_int) function c_loop(dq, turns) bind(C, name="dq_loop")
            import :: c_ptr, c_int, c_int64_t
            type(c_ptr), value :: dq
            integer(c_int64_t), value :: turns
        end function
        integer(c_int) function c_next(dq) bind(C, name="dq_next")
            import :: c_ptr, c_int
            type(c_ptr), value :: dq
        end function
        integer(c_int64_t) function c_step(dq) bind(C, name="dq_step")
            import :: c_ptr, c_int64_t
            type(c_ptr), value :: dq
        end function
        integer(c_int) function c_resized(dq) bind(C, name="dq_resized")
            import :: c_ptr, c_int
            type(c_ptr), value :: dq
        end function
        integer(c_int) function c_left(dq) bind(C, name="dq_left")
            import :: c_ptr, c_int
            type(c_ptr), value :: dq
        end function
        integer(c_int) function c_rank(dq) bind(C, name="dq_rank")
            import :: c_ptr, c_int
            type(c_ptr), value :: dq
        end function
        integer(c_int) function c_size(dq) bind(C, name="dq_size")
            import :: c_ptr, c_int
            type(c_ptr), value :: dq
        end function
        integer(c_int) function c_comm(dq) bind(C, name="dq_comm_f")
            import :: c_ptr, c_int
            type(c_ptr), value :: dq
        end function
        integer(c_int) function c_grid(dq, nprow, npcol, myrow, mycol) bind(C, name="dq_grid")
            import :: c_ptr, c_int
            type(c_ptr), value :: dq
            integer(c_int), intent(out) :: nprow, npcol, myrow, mycol
        end function
        integer(c_int) function c_part(dq, name, part) bind(C, name="dq_part")
            import :: c_ptr, c_int, c_char, dq_part_t
            type(c_ptr), value :: dq
            character(kind=c_char), intent(in) :: name(*)
            type(dq_part_t), intent(inout) :: part
        end function
        integer(c_int) function c_blacs(dq) bind(C, name="dq_blacs")
            import :: c_ptr, c_int
            type(c_ptr), value :: dq
        end function
        integer(c_int) function c_desc(dq, name, desc) bind(C, name="dq_desc")
            import :: c_ptr, c_int, c_char
            type(c_ptr), value :: dq
            character(kind=c_char), intent(in) :: name(*)
            integer(c_int), intent(inout) :: desc(9)
        end function
        integer(c_size_t) function c_strlen(text) bind(C, name="strlen")
            import :: c_ptr, c_size_t
            type(c_ptr), value :: text
        end function
    end interface

contains

    type(dq_session) function dq_open()
        dq_open%handle = c_open(c_null_ptr, c_null_ptr)
    end function

    subroutine dq_close(job)
        type(dq_session), intent(in) :: job
        integer(c_int) :: done
        done = c_close(job%handle)
    end subroutine

    subroutine dq_on_error(mode)
        integer(c_int), intent(in) :: mode
        call c_on_error(mode)
    end subroutine

    function dq_error()
        character(:), allocatable :: dq_error
        character(kind=c_char), pointer :: text(:)
        type(c_ptr) :: address
        integer :: i
        address = c_error()
        call c_f_pointer(address, text, [c_strlen(address)])
        allocate (character(size(text)) :: dq_error)
        do i = 1, size(text)
            dq_error(i:i) = text(i)
        end do
    end function

    subroutine dq_block_cyclic(job, name, m, n, mb, nb, kind)
        type(dq_session), intent(in) :: job
        character(*), intent(in) :: name
        integer, intent(in) :: m, n, mb, nb
        integer(c_int), intent(in) :: kind
        integer(c_int) :: done
        done = c_block_cyclic(job%handle, c_name(name), c_null_ptr, int(m, c_int64_t), &
                              int(n, c_int64_t), int(mb, c_int64_t), int(nb, c_int64_t), kind)
    end subroutine

    subroutine dq_block(job, name, n, width, kind)
        type(dq_session), intent(in) :: job
        character(*), intent(in) :: name
        integer, intent(in) :: n, width
        integer(c_int), intent(in) :: kind
        integer(c_int) :: done
        done = c_block(job%handle, c_name(name), c_null_ptr, int(n, c_int64_t), &
                       int(width, c_int64_t), kind)
    end subroutine

    ! An array with these extents in blocks over all its dimensions. `halo`, `periodic`, `dims`: one
    ! value per dimension, or left out: no ghosts, no dimension periodic, DQ chooses the grid.
    subroutine dq_cartesian(job, name, extents, kind, halo, periodic, dims)
        type(dq_session), intent(in) :: job
        character(*), intent(in) :: name
        integer, intent(in) :: extents(:)
        integer(c_int), intent(in) :: kind
        integer, intent(in), optional :: halo(size(extents)), dims(size(extents))
        logical, intent(in), optional :: periodic(size(extents))
        integer(c_int), dimension(size(extents)) :: widths, rings, ranks
        integer(c_int) :: done
        integer :: n
        n = size(extents)
        widths = 0; rings = 0; ranks = 0
        if (present(halo)) widths = halo(n:1:-1)
        if (present(periodic)) rings = merge(1, 0, periodic(n:1:-1))
        if (present(dims)) ranks = dims(n:1:-1)
        ! The dimensions in reverse order: row-major there is column-major here.
        done = c_cartesian(job%handle, c_name(name), c_null_ptr, int(n, c_int), &
                           int(extents(n:1:-1), c_int64_t), widths, rings, ranks, kind)
    end subroutine

    ! `address`: c_loc of a variable that has the TARGET attribute and lives as long as the session
    ! (SAVE, or in the main program). DQ reads it, and writes it in ranks that join.
    subroutine dq_value(job, name, address, bytes)
        type(dq_session), intent(in) :: job
        character(*), intent(in) :: name
        type(c_ptr), intent(in) :: address
        integer, intent(in) :: bytes
        integer(c_int) :: done
        done = c_value(job%handle, c_name(name), address, int(bytes, c_size_t))
    end subroutine

    subroutine dq_loop(job, turns)
        type(dq_session), intent(in) :: job
        integer, intent(in) :: turns
        integer(c_int) :: done
        done = c_loop(job%handle, int(turns, c_int64_t))
    end subroutine

    logical function dq_next(job)
        type(dq_session), intent(in) :: job
        dq_next = c_next(job%handle) > 0
    end function

    integer function dq_step(job)
        type(dq_session), intent(in) :: job
        dq_step = int(c_step(job%handle))
    end function

    logical function dq_resized(job)
        type(dq_session), intent(in) :: job
        dq_resized = c_resized(job%handle) > 0
    end function

    logical function dq_left(job)
        type(dq_session), intent(in) :: job
        dq_left = c_left(job%handle) > 0
    end function

    integer function dq_rank(job)
        type(dq_session), intent(in) :: job
        dq_rank = c_rank(job%handle)
    end function

    integer function dq_size(job)
        type(dq_session), intent(in) :: job
        dq_size = c_size(job%handle)
    end function

    ! What `use mpi` takes; with `use mpi_f08`: comm%MPI_VAL = dq_comm(job).
    integer function dq_comm(job)
        type(dq_session), intent(in) :: job
        dq_comm = c_comm(job%handle)
    end function

    subroutine dq_grid(job, nprow, npcol, myrow, mycol)
        type(dq_session), intent(in) :: job
        integer, intent(out) :: nprow, npcol, myrow, mycol
        integer(c_int) :: done
        nprow = -1; npcol = -1; myrow = -1; mycol = -1
        done = c_grid(job%handle, nprow, npcol, myrow, mycol)
    end subroutine

    type(dq_part_t) function dq_part(job, name)
        type(dq_session), intent(in) :: job
        character(*), intent(in) :: name
        integer(c_int) :: done
        done = c_part(job%handle, c_name(name), dq_part)
    end function

    ! The address of this rank's part, for types that have no function below (c_f_pointer).
    type(c_ptr) function dq_local(job, name)
        type(dq_session), intent(in) :: job
        character(*), intent(in) :: name
        type(dq_part_t) :: part
        part = dq_part(job, name)
        dq_local = part%data
    end function

    ! A block-cyclic array of DQ_DOUBLE: this rank's part, (rows, columns).
    function dq_matrix(job, name)
        type(dq_session), intent(in) :: job
        character(*), intent(in) :: name
        real(dq_real), pointer :: dq_matrix(:, :)
        type(dq_part_t) :: part
        part = dq_part(job, name)
        nullify (dq_matrix)
        if (c_associated(part%data)) &
            call c_f_pointer(part%data, dq_matrix, [part%rows, part%cols])
    end function

    ! A block array of DQ_DOUBLE: this rank's part, (width, items).
    function dq_items(job, name)
        type(dq_session), intent(in) :: job
        character(*), intent(in) :: name
        real(dq_real), pointer :: dq_items(:, :)
        type(dq_part_t) :: part
        part = dq_part(job, name)
        nullify (dq_items)
        if (c_associated(part%data)) call c_f_pointer(part%data, dq_items, [part%cols, part%rows])
    end function

    ! This rank's block of a Cartesian array.
    type(dq_box_t) function dq_box(job, name)
        type(dq_session), intent(in) :: job
        character(*), intent(in) :: name
        integer(c_int) :: done
        integer :: n
        done = c_box(job%handle, c_name(name), dq_box)
        n = int(dq_box%ndims)
        if (n < 1) return
        dq_box%start(:n) = dq_box%start(n:1:-1) + 1
        dq_box%count(:n) = dq_box%count(n:1:-1)
        dq_box%stored(:n) = dq_box%stored(n:1:-1)
        dq_box%halo(:n) = dq_box%halo(n:1:-1)
        dq_box%shape(:n) = dq_box%shape(n:1:-1)
        dq_box%dims(:n) = dq_box%dims(n:1:-1)
        dq_box%coords(:n) = dq_box%coords(n:1:-1)
    end function

    subroutine field_1(job, name, u)
        type(dq_session), intent(in) :: job
        character(*), intent(in) :: name
        real(dq_real), pointer, intent(out) :: u(:)
        real(dq_real), pointer :: stored(:)
        integer(c_int64_t) :: low(1)
        type(dq_box_t) :: box
        nullify (u)
        if (.not. has_rank(job, name, 1, box)) return
        call c_f_pointer(box%data, stored, box%stored(:1))
        low = box%start(:1) - box%halo(:1)
        u(low(1):) => stored
    end subroutine

    subroutine field_2(job, name, u)
        type(dq_session), intent(in) :: job
        character(*), intent(in) :: name
        real(dq_real), pointer, intent(out) :: u(:, :)
        real(dq_real), pointer :: stored(:, :)
        integer(c_int64_t) :: low(2)
        type(dq_box_t) :: box
        nullify (u)
        if (.not. has_rank(job, name, 2, box)) return
        call c_f_pointer(box%data, stored, box%stored(:2))
        low = box%start(:2) - box%halo(:2)
        u(low(1):, low(2):) => stored
    end subroutine

    subroutine field_3(job, name, u)
        type(dq_session), intent(in) :: job
        character(*), intent(in) :: name
        real(dq_real), pointer, intent(out) :: u(:, :, :)
        real(dq_real), pointer :: stored(:, :, :)
        integer(c_int64_t) :: low(3)
        type(dq_box_t) :: box
        nullify (u)
        if (.not. has_rank(job, name, 3, box)) return
        call c_f_pointer(box%data, stored, box%stored(:3))
        low = box%start(:3) - box%halo(:3)
        u(low(1):, low(2):, low(3):) => stored
    end subroutine

    subroutine field_4(job, name, u)
        type(dq_session), intent(in) :: job
        character(*), intent(in) :: name
        real(dq_real), pointer, intent(out) :: u(:, :, :, :)
        real(dq_real), pointer :: stored(:, :, :, :)
        integer(c_int64_t) :: low(4)
        type(dq_box_t) :: box
        nullify (u)
        if (.not. has_rank(job, name, 4, box)) return
        call c_f_pointer(box%data, stored, box%stored(:4))
        low = box%start(:4) - box%halo(:4)
        u(low(1):, low(2):, low(3):, low(4):) => stored
    end subroutine

    ! The block, if it has so many dimensions. Pointers of another rank would be wrong in silence.
    logical function has_rank(job, name, dimensions, box)
        type(dq_session), intent(in) :: job
        character(*), intent(in) :: name
        integer, intent(in) :: dimensions
        type(dq_box_t), intent(out) :: box
        box = dq_box(job, name)
        has_rank = c_associated(box%data) .and. box%ndims == dimensions
        if (c_associated(box%data) .and. .not. has_rank) then
            write (error_unit, '(3a, i0, a, i0, a)') "dq: dq_field: '", trim(name), "' has ", &
                box%ndims, " dimensions, and the pointer has ", dimensions, &
                ": give a pointer with as many"
            error stop 1
        end if
    end function

    ! Fill the ghosts of a Cartesian array from the ranks that own them. Collective.
    subroutine dq_exchange(job, name)
        type(dq_session), intent(in) :: job
        character(*), intent(in) :: name
        integer(c_int) :: done
        done = c_exchange(job%handle, c_name(name))
    end subroutine

    ! Write a whole block or Cartesian array to `whole` (c_loc of an array) on rank 0; other ranks may
    ! give c_null_ptr. Collective.
    subroutine dq_gather(job, name, whole)
        type(dq_session), intent(in) :: job
        character(*), intent(in) :: name
        type(c_ptr), intent(in) :: whole
        integer(c_int) :: done
        done = c_gather(job%handle, c_name(name), whole)
    end subroutine

    ! Global row (item) of local row `i`, global column of local column `j`: all from 1, here.
    integer(dq_long) function dq_row(part, i)
        type(dq_part_t), intent(in) :: part
        integer, intent(in) :: i
        integer(dq_long) :: k
        k = i - 1
        if (part%mb > 0) then
            dq_row = (k/part%mb*part%nprow + part%myrow)*part%mb + mod(k, part%mb) + 1
        else
            dq_row = part%first + i
        end if
    end function

    integer(dq_long) function dq_col(part, j)
        type(dq_part_t), intent(in) :: part
        integer, intent(in) :: j
        integer(dq_long) :: k
        k = j - 1
        if (part%nb > 0) then
            dq_col = (k/part%nb*part%npcol + part%mycol)*part%nb + mod(k, part%nb) + 1
        else
            dq_col = j
        end if
    end function

    integer function dq_blacs(job)
        type(dq_session), intent(in) :: job
        dq_blacs = c_blacs(job%handle)
    end function

    subroutine dq_desc(job, name, desc)
        type(dq_session), intent(in) :: job
        character(*), intent(in) :: name
        integer, intent(out) :: desc(9)
        integer(c_int) :: done
        desc = -1
        done = c_desc(job%handle, c_name(name), desc)
    end subroutine

    pure function c_name(name)
        character(*), intent(in) :: name
        character(kind=c_char) :: c_name(len_trim(name) + 1)
        integer :: i
        do i = 1, len_trim(name)
            c_name(i) = name(i:i)
        end do
        c_name(len_trim(name) + 1) = c_null_char
    end function
end module
