! Values of all types and ranks, whole and cut, saved and restored.

module test_values
  use, intrinsic :: iso_fortran_env
  use, intrinsic :: iso_c_binding, only: c_bool
  use belay
  use expect
  implicit none
  private
  public :: test_types, test_from_rank0, test_ranks, test_kinds, test_sections, &
      test_strings

  integer, parameter :: length = 7  ! of the axis that is cut

contains

  ! One scalar and one array of each type, equal on all ranks.
  subroutine test_types(comm, dir)
    type(belay_comm), intent(in) :: comm
    character(len=*), intent(in) :: dir
    integer(int8), target :: i1(3)
    integer(int16), target :: i2(3)
    integer(int32), target :: i4(3), n
    integer(int64), target :: i8(3), step
    real(real32), target :: r4(3)
    real(real64), target :: r8(3), time
    complex(real32), target :: c4(2)
    complex(real64), target :: c8(2), phase
    logical, target :: l4(3), is_on
    logical(c_bool), target :: l1(3)
    logical(int64), target :: l8(2)
    type(belay_state) :: state
    integer :: pass
    call belay_state_create(state)
    call belay_add(state, "i1", i1)
    call belay_add(state, "i2", i2)
    call belay_add(state, "i4", i4)
    call belay_add(state, "i8", i8)
    call belay_add(state, "r4", r4)
    call belay_add(state, "r8", r8)
    call belay_add(state, "c4", c4)
    call belay_add(state, "c8", c8)
    call belay_add(state, "l4", l4)
    call belay_add(state, "l1", l1)
    call belay_add(state, "l8", l8)
    call belay_add(state, "n", n)
    call belay_add(state, "step", step)
    call belay_add(state, "time", time)
    call belay_add(state, "phase", phase)
    call belay_add(state, "is_on", is_on)
    do pass = 1, 2
      i1 = int(pass*[1, 2, -3], int8); i2 = int(pass*[300, 2, -3], int16)
      i4 = pass*[70000, 2, -3]; i8 = pass*[2_int64**40, 2_int64, -3_int64]
      r4 = real(pass, real32)*[0.5, 1e30, -3.0]; r8 = pass*[0.1d0, 1d300, -3d0]
      c4 = pass*(1.5, -2.0); c8 = pass*(0.1d0, 7d0)
      l4 = [.true., .false., pass == 1]; l1 = [.false._c_bool, .true._c_bool, &
          logical(pass == 1, c_bool)]; l8 = [pass == 1, .true.]
      n = pass; step = 10*pass; time = 0.25d0*pass; phase = (0d0, 1d0)*pass
      is_on = pass == 1
      if (pass == 1) call belay_save(comm, dir//"/types", 1_int64, state)
    end do
    call belay_restore(comm, dir//"/types", state)
    call expect_true("int8", all(i1 == int([1, 2, -3], int8)))
    call expect_true("int16", all(i2 == int([300, 2, -3], int16)))
    call expect_true("int32", all(i4 == [70000, 2, -3]))
    call expect_true("int64", all(i8 == [2_int64**40, 2_int64, -3_int64]))
    call expect_true("real32", all(r4 == [0.5, 1e30, -3.0]))
    call expect_true("real64", all(r8 == [0.1d0, 1d300, -3d0]))
    call expect_true("complex(real32)", all(c4 == (1.5, -2.0)))
    call expect_true("complex(real64)", all(c8 == (0.1d0, 7d0)))
    call expect_true("logical", all(l4 .eqv. [.true., .false., .true.]))
    call expect_true("logical(1)", logical(all(l1(2:)) .and. .not. l1(1)))
    call expect_true("logical(8)", logical(all(l8)))
    call expect_true("scalars", n == 1 .and. step == 10 .and. &
        time == 0.25d0 .and. phase == (0d0, 1d0) .and. is_on)
    call belay_state_free(state)
  end subroutine

  ! What each rank has computed for itself, with another last bit.
  subroutine test_from_rank0(comm, dir, rank)
    type(belay_comm), intent(in) :: comm
    character(len=*), intent(in) :: dir
    integer, intent(in) :: rank
    real(real64), target :: dt, norms(4, 3)
    integer(int32), target :: counts(2)
    character(len=3), target :: text
    type(belay_state) :: state
    integer(int64) :: step
    integer :: ierr
    call belay_state_create(state)
    call belay_add_from_rank0(state, "dt", dt)
    call belay_add_from_rank0(state, "norms", norms(1:2, :))
    call belay_add_from_rank0(state, "counts", counts)
    do step = 1, 3
      dt = 0.25d0*(1 + rank*epsilon(1.0d0))
      norms = rank + 0.5d0
      counts = [rank, 7]
      call belay_save(comm, dir//"/from_rank0", step, state)
      dt = -1; norms = -1; counts = -1
      call belay_restore(comm, dir//"/from_rank0", state, step)
      call expect_true("the time step of rank 0", dt == 0.25d0)
      call expect_true("the norms of rank 0", all(norms(1:2, :) == 0.5d0) .and. &
          all(norms(3:, :) == -1))
      call expect_true("the counts of rank 0", all(counts == [0, 7]))
    end do
    text = "abc"
    call belay_add_from_rank0(state, "text", text, ierr)
    call expect_code("a text from rank 0", belay_invalid_argument, ierr)
    call belay_state_free(state)
  end subroutine

  ! Arrays of 1 to 7 axes, cut along the last axis; saved, and restored by
  ! another number of ranks if there is one.
  subroutine test_ranks(comm, dir, rank, size, is_saver)
    type(belay_comm), intent(in) :: comm
    character(len=*), intent(in) :: dir
    integer, intent(in) :: rank, size
    logical, intent(in) :: is_saver
    real(real64), allocatable, target :: u1(:), u2(:, :), u3(:, :, :), &
        u4(:, :, :, :), u5(:, :, :, :, :), u6(:, :, :, :, :, :), &
        u7(:, :, :, :, :, :, :)
    integer(int64), target :: own(rank + 1)
    type(belay_state) :: state
    integer :: a, b, n
    call part(length, rank, size, a, b)
    n = b - a + 1
    allocate (u1(a:b), u2(3, a:b), u3(2, 3, a:b), u4(1, 2, 3, a:b), &
        u5(2, 1, 2, 3, a:b), u6(2, 2, 1, 2, 3, a:b), u7(2, 1, 2, 1, 2, 3, a:b))
    u1 = -1; u2 = -1; u3 = -1; u4 = -1; u5 = -1; u6 = -1; u7 = -1
    own = -1
    if (is_saver) then
      call fill(u1, n, a - 1)
      call fill(u2, 3*n, 3*(a - 1))
      call fill(u3, 6*n, 6*(a - 1))
      call fill(u4, 6*n, 6*(a - 1))
      call fill(u5, 12*n, 12*(a - 1))
      call fill(u6, 24*n, 24*(a - 1))
      call fill(u7, 24*n, 24*(a - 1))
      own = rank
    end if
    call belay_state_create(state)
    call belay_add_piece(state, "u1", u1, [length], [a])
    call belay_add_piece(state, "u2", u2, [3, length], [1, a])
    call belay_add_piece(state, "u3", u3, int([2, 3, length], int64), &
        int([1, 1, a], int64))
    call belay_add_piece(state, "u4", u4, [1, 2, 3, length], [1, 1, 1, a])
    call belay_add_piece(state, "u5", u5, [2, 1, 2, 3, length], [1, 1, 1, 1, a])
    call belay_add_piece(state, "u6", u6, [2, 2, 1, 2, 3, length], &
        [1, 1, 1, 1, 1, a])
    call belay_add_piece(state, "u7", u7, [2, 1, 2, 1, 2, 3, length], &
        [1, 1, 1, 1, 1, 1, a])
    if (is_saver) then
      call belay_add_per_rank(state, "own", own)
      call belay_save(comm, dir//"/ranks", 1_int64, state)
      u1 = -1; u2 = -1; u3 = -1; u4 = -1; u5 = -1; u6 = -1; u7 = -1
      own = -1
    end if
    call belay_restore(comm, dir//"/ranks", state, step=1_int64)
    call expect_true("1 axis", count_wrong(u1, n, a - 1) == 0)
    call expect_true("2 axes", count_wrong(u2, 3*n, 3*(a - 1)) == 0)
    call expect_true("3 axes", count_wrong(u3, 6*n, 6*(a - 1)) == 0)
    call expect_true("4 axes", count_wrong(u4, 6*n, 6*(a - 1)) == 0)
    call expect_true("5 axes", count_wrong(u5, 12*n, 12*(a - 1)) == 0)
    call expect_true("6 axes", count_wrong(u6, 24*n, 24*(a - 1)) == 0)
    call expect_true("7 axes", count_wrong(u7, 24*n, 24*(a - 1)) == 0)
    if (is_saver) call expect_true("per rank", all(own == rank))
    call belay_state_free(state)
  end subroutine

  ! Real and integer arrays of 4 and 8 bytes and of 1 to 7 axes, cut along the
  ! last axis. Programs in C++ and h5py read them, too.
  subroutine test_kinds(comm, dir, rank, size, is_saver)
    type(belay_comm), intent(in) :: comm
    character(len=*), intent(in) :: dir
    integer, intent(in) :: rank, size
    logical, intent(in) :: is_saver
    integer, parameter :: lengths(7) = [2, 3, 2, 1, 2, 3, length]
    integer(int64), allocatable, target :: i8(:)
    integer(int32), allocatable, target :: i4(:)
    real(real64), allocatable, target :: r8(:)
    real(real32), allocatable, target :: r4(:)
    integer :: a, b, axes, n, first
    type(belay_state) :: state
    call part(length, rank, size, a, b)
    do axes = 1, 7
      ! The last `axes` of the lengths.
      n = product(lengths(8 - axes:6))
      first = n*(a - 1)
      n = n*(b - a + 1)
      allocate (i8(n), i4(n), r8(n), r4(n))
      i8 = 0; i4 = 0; r8 = 0; r4 = 0
      if (is_saver) then
        call fill(r8, n, first)
        r4 = real(r8, real32)
        i8 = int(r8, int64) + 2_int64**33
        i4 = int(r8, int32)
      end if
      call belay_state_create(state)
      call add_kinds(state, axes, lengths(8 - axes:), a, b - a + 1, i8, i4, &
          r8, r4)
      if (is_saver) then
        call belay_save(comm, dir//"/kinds", int(axes, int64), state)
        i8 = 0; i4 = 0; r8 = 0; r4 = 0
      end if
      call belay_restore(comm, dir//"/kinds", state, step=int(axes, int64))
      call expect_true("real(8)", count_wrong(r8, n, first) == 0)
      call expect_true("real(4)", all(r4 == real(r8, real32)))
      call expect_true("integer(8)", all(i8 == int(r8, int64) + 2_int64**33))
      call expect_true("integer(4)", all(i4 == int(r8, int32)))
      call belay_state_free(state)
      deallocate (i8, i4, r8, r4)
    end do
  end subroutine

  ! Adds the pieces with this number of axes, of which the last one has `width`
  ! elements from `first` on.
  subroutine add_kinds(state, axes, lengths, first, width, i8, i4, r8, r4)
    type(belay_state), intent(in) :: state
    integer, intent(in) :: axes, lengths(axes), first, width
    integer(int64), contiguous, intent(inout), target :: i8(:)
    integer(int32), contiguous, intent(inout), target :: i4(:)
    real(real64), contiguous, intent(inout), target :: r8(:)
    real(real32), contiguous, intent(inout), target :: r4(:)
    integer :: start(axes), s(axes)
    start = 1
    start(axes) = first
    s = lengths
    s(axes) = width
    select case (axes)
    case (1)
      call add_1(i8, i4, r8, r4)
    case (2)
      call add_2(i8, i4, r8, r4)
    case (3)
      call add_3(i8, i4, r8, r4)
    case (4)
      call add_4(i8, i4, r8, r4)
    case (5)
      call add_5(i8, i4, r8, r4)
    case (6)
      call add_6(i8, i4, r8, r4)
    case (7)
      call add_7(i8, i4, r8, r4)
    end select
  contains
    subroutine add_1(i8, i4, r8, r4)
      integer(int64), intent(inout), target :: i8(s(1))
      integer(int32), intent(inout), target :: i4(s(1))
      real(real64), intent(inout), target :: r8(s(1))
      real(real32), intent(inout), target :: r4(s(1))
      call add_all(i8, i4, r8, r4)
    end subroutine
    subroutine add_2(i8, i4, r8, r4)
      integer(int64), intent(inout), target :: i8(s(1), s(2))
      integer(int32), intent(inout), target :: i4(s(1), s(2))
      real(real64), intent(inout), target :: r8(s(1), s(2))
      real(real32), intent(inout), target :: r4(s(1), s(2))
      call add_all(i8, i4, r8, r4)
    end subroutine
    subroutine add_3(i8, i4, r8, r4)
      integer(int64), intent(inout), target :: i8(s(1), s(2), s(3))
      integer(int32), intent(inout), target :: i4(s(1), s(2), s(3))
      real(real64), intent(inout), target :: r8(s(1), s(2), s(3))
      real(real32), intent(inout), target :: r4(s(1), s(2), s(3))
      call add_all(i8, i4, r8, r4)
    end subroutine
    subroutine add_4(i8, i4, r8, r4)
      integer(int64), intent(inout), target :: i8(s(1), s(2), s(3), s(4))
      integer(int32), intent(inout), target :: i4(s(1), s(2), s(3), s(4))
      real(real64), intent(inout), target :: r8(s(1), s(2), s(3), s(4))
      real(real32), intent(inout), target :: r4(s(1), s(2), s(3), s(4))
      call add_all(i8, i4, r8, r4)
    end subroutine
    subroutine add_5(i8, i4, r8, r4)
      integer(int64), intent(inout), target :: i8(s(1), s(2), s(3), s(4), s(5))
      integer(int32), intent(inout), target :: i4(s(1), s(2), s(3), s(4), s(5))
      real(real64), intent(inout), target :: r8(s(1), s(2), s(3), s(4), s(5))
      real(real32), intent(inout), target :: r4(s(1), s(2), s(3), s(4), s(5))
      call add_all(i8, i4, r8, r4)
    end subroutine
    subroutine add_6(i8, i4, r8, r4)
      integer(int64), intent(inout), target :: i8(s(1), s(2), s(3), s(4), s(5), s(6))
      integer(int32), intent(inout), target :: i4(s(1), s(2), s(3), s(4), s(5), s(6))
      real(real64), intent(inout), target :: r8(s(1), s(2), s(3), s(4), s(5), s(6))
      real(real32), intent(inout), target :: r4(s(1), s(2), s(3), s(4), s(5), s(6))
      call add_all(i8, i4, r8, r4)
    end subroutine
    subroutine add_7(i8, i4, r8, r4)
      integer(int64), intent(inout), target :: i8(s(1), s(2), s(3), s(4), s(5), s(6), s(7))
      integer(int32), intent(inout), target :: i4(s(1), s(2), s(3), s(4), s(5), s(6), s(7))
      real(real64), intent(inout), target :: r8(s(1), s(2), s(3), s(4), s(5), s(6), s(7))
      real(real32), intent(inout), target :: r4(s(1), s(2), s(3), s(4), s(5), s(6), s(7))
      call add_all(i8, i4, r8, r4)
    end subroutine
    subroutine add_all(i8, i4, r8, r4)
      type(*), dimension(..), intent(inout), target :: i8, i4, r8, r4
      call belay_add_piece(state, "i8", i8, lengths, start)
      call belay_add_piece(state, "i4", i4, lengths, start)
      call belay_add_piece(state, "r8", r8, lengths, start)
      call belay_add_piece(state, "r4", r4, lengths, start)
    end subroutine
  end subroutine

  ! A piece inside ghost cells, restored by the other axis; and some elements of
  ! an array that all ranks hold.
  subroutine test_sections(comm, dir, rank, size)
    type(belay_comm), intent(in) :: comm
    character(len=*), intent(in) :: dir
    integer, intent(in) :: rank, size
    integer, parameter :: rows = 5
    real(real32), allocatable, target :: u(:, :), v(:, :)
    integer, target :: few(9)
    type(belay_state) :: state
    integer :: a, b, i, j
    call part(length, rank, size, a, b)
    allocate (u(0:rows + 1, a - 1:b + 1), source=-1.0)
    do j = a, b
      u(1:rows, j) = [(100.0*i + j, i=1, rows)]
    end do
    few = [(i, i=1, 9)]
    call belay_state_create(state)
    call belay_add_piece(state, "plate", u(1:rows, a:b), [rows, length], [1, a])
    call belay_add(state, "few", few(1:5))
    call belay_save(comm, dir//"/sections", 1_int64, state)
    call belay_state_free(state)

    call part(rows, rank, size, a, b)
    allocate (v(a:b, length), source=-1.0)
    few = 0
    call belay_state_create(state)
    call belay_add_piece(state, "plate", v, [rows, length], [a, 1])
    call belay_add(state, "few", few(2:6))
    call belay_restore(comm, dir//"/sections", state)
    do j = 1, length
      call expect_true("a plate that is cut by rows", &
          all(v(:, j) == [(100.0*i + j, i=a, b)]))
    end do
    call expect_true("some elements", &
        all(few == [0, 1, 2, 3, 4, 5, 0, 0, 0]))
    call belay_state_free(state)
  end subroutine

  ! Strings, and arrays of strings.
  subroutine test_strings(comm, dir)
    type(belay_comm), intent(in) :: comm
    character(len=*), intent(in) :: dir
    character(len=12), target :: name, names(2)
    character(len=20), target :: longer
    character(len=2), target :: short
    type(belay_state) :: state
    integer :: ierr
    name = "two words"
    names = [character(len=12) :: "north", "south"]
    call belay_state_create(state)
    call belay_add(state, "name", name)
    call belay_add(state, "names", names)
    call belay_save(comm, dir//"/strings", 1_int64, state)
    name = "x"
    names = "x"
    call belay_restore(comm, dir//"/strings", state)
    call expect_true("a string", name == "two words")
    call expect_true("strings", names(1) == "north" .and. names(2) == "south")
    call belay_state_free(state)
    call belay_state_create(state)
    call belay_add(state, "name", longer)
    call belay_restore(comm, dir//"/strings", state)
    call expect_true("a longer string", longer == "two words")
    call belay_state_free(state)
    call belay_state_create(state)
    call belay_add(state, "name", short)
    call belay_restore(comm, dir//"/strings", state, ierr=ierr)
    call expect_code("a shorter string", belay_out_of_range, ierr)
    call belay_state_free(state)
  end subroutine

end module test_values
