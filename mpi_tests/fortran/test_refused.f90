! What the module does not take.

module test_refused
  use, intrinsic :: iso_fortran_env
  use belay
  use expect
  implicit none
  private
  public :: test_apart, test_objects, test_wrong_rows

  type :: pair
    integer(int64) :: id
    real(real64) :: t
  end type
  type :: solver
    integer(int64) :: id
    real(real64), allocatable :: u(:, :)
    type(pair), allocatable :: pairs(:)
  end type

contains

  ! Elements that lie apart, which a compiler may also pass as a copy, are an
  ! error at once. A reader takes them.
  subroutine test_apart(comm, dir)
    type(belay_comm), intent(in) :: comm
    character(len=*), intent(in) :: dir
    type(pair), target :: pairs(5)
    complex(real64), target :: z(5)
    character(len=6), target :: names(3)
    real(real64), target :: u(5, 5)
    real(real64), pointer :: t(:)
    type(belay_state) :: state
    type(belay_reader) :: reader
    integer :: i, ierr
    call belay_state_create(state)
    call belay_add(state, "t", pairs%t, ierr)
    call refused("components")
    call expect_message('add "t": its elements lie apart along the first axis')
    call belay_add(state, "t", pairs(2:2)%t, ierr)
    call refused("one component")
    t => pairs%t
    call belay_add_per_rank(state, "t", t, ierr=ierr)
    call refused("a pointer to components")
    call belay_add_piece(state, "t", z%re, [5], [1], ierr)
    call refused("real parts")
    call belay_add(state, "t", names(:)(2:3), ierr)
    call refused("parts of strings")
    call belay_add_laid_out(state, "t", u(1:5:2, :), "[-,-] on x=1", [3, 5], &
        0, ierr)
    call refused("a section with a stride")
    call belay_add_piece_with_ghosts(state, "t", u(2, :), [3], [1], [1], &
        ierr=ierr)
    call refused("a part of the first axis")
    call belay_add_rows(state, "t", pairs%t, ierr=ierr)
    call refused("rows")
    call belay_add_rows_by_id(state, "t", pairs%id, pairs%t, ierr=ierr)
    call refused("rows and ids")
    call belay_add_rows_by_id(state, "t", pairs%id, u(:, 1), ierr=ierr)
    call refused("ids")

    call belay_state_clear(state)
    u = reshape([(real(i, real64), i=1, 25)], [5, 5])
    call belay_add(state, "u", u(2:2, :))
    call belay_save(comm, dir//"/apart", 1_int64, state)
    u(:, 3) = 0
    call belay_restore(comm, dir//"/apart", state)
    call expect_true("a row of a matrix", u(2, 3) == 12 .and. u(1, 3) == 0)
    call belay_state_free(state)
    call belay_reader_open(dir//"/apart", reader)
    call belay_reader_read(reader, "u", u(3:3, :))
    call expect_true("a section that is read", all(u(3, :) == [2, 7, 12, 17, 22]))
    call belay_reader_close(reader)

  contains
    subroutine refused(what)
      character(len=*), intent(in) :: what
      call expect_code(what, belay_invalid_argument, ierr)
    end subroutine
  end subroutine

  ! Arrays of an object of a class; and components of an allocatable array, which
  ! a reader sets and leaves where they are.
  subroutine test_objects(comm, dir)
    type(belay_comm), intent(in) :: comm
    character(len=*), intent(in) :: dir
    class(solver), allocatable, target :: all_of(:)
    real(real64), target :: six(6)
    type(belay_state) :: state
    type(belay_reader) :: reader
    allocate (all_of(2))
    allocate (all_of(2)%u(2, 3), all_of(2)%pairs(6))
    all_of(2)%u = 4
    all_of(2)%pairs%id = 5
    all_of(2)%pairs%t = 6
    six = 7
    call belay_state_create(state)
    call belay_add(state, "u", all_of(2)%u)
    call belay_add(state, "t", all_of(2)%pairs(3)%t)
    call belay_add(state, "six", six)
    call belay_save(comm, dir//"/objects", 1_int64, state)
    all_of(2)%u = 0
    all_of(2)%pairs(3)%t = 0
    call belay_restore(comm, dir//"/objects", state)
    call expect_true("an array of an object", all(all_of(2)%u == 4))
    call expect_true("a component", all(all_of(2)%pairs%t == 6))
    call belay_state_free(state)
    call belay_reader_open(dir//"/objects", reader)
    call belay_reader_read(reader, "six", all_of(2)%pairs%t)
    call belay_reader_close(reader)
    call expect_true("components", all(all_of(2)%pairs%t == 7) .and. &
        all(all_of(2)%pairs%id == 5))
  end subroutine

  ! Rows of another type than the fields, and rows without memory.
  subroutine test_wrong_rows()
    type :: nothing
    end type
    type(pair), target :: pairs(5)
    type(solver), target :: solvers(5)
    type(nothing), target :: nothings(5)
    real(real64), allocatable, target :: x(:, :)
    real(real64), target :: t(5)
    integer, allocatable, target :: ids(:)
    integer, target :: n
    type(belay_state) :: state
    type(belay_fields) :: fields
    integer :: ierr
    n = 5
    call belay_state_create(state)
    call belay_add_rows(state, "rows", pairs, n, fields, ierr)
    call refused("fields that are not created", "fields were not created")
    call belay_fields_create(pairs(1), fields)
    call belay_fields_add(fields, "t", pairs(1)%t)
    call belay_fields_add(fields, "id", pairs%id, ierr)
    call refused("the components of all", "field")
    call belay_add_rows(state, "rows", solvers, n, fields, ierr)
    call refused("elements of another type", "another size")
    call belay_add_rows(state, "rows", nothings, n, fields, ierr)
    call refused("elements of no size", "another size")
    call belay_add_rows(state, "rows", pairs(1:5:2), n, fields, ierr)
    call refused("every second element", "lie apart")
    call belay_add_rows(state, "rows", x, n, ierr=ierr)
    call refused("no array", 'add "rows": the array is not allocated')
    call belay_add_rows_by_id(state, "rows", ids, t, n, ierr=ierr)
    call refused("no ids", "not allocated")
    call belay_add_rows_by_id(state, "rows", [1, 2, 3, 4, 5], t, total=t, &
        ierr=ierr)
    call refused("a total that is none", "total")
    call belay_fields_free(fields)
    call belay_state_free(state)

  contains
    subroutine refused(what, text)
      character(len=*), intent(in) :: what, text
      call expect_code(what, belay_invalid_argument, ierr)
      call expect_message(text)
    end subroutine
  end subroutine

end module test_refused
