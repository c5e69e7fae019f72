! Rows of numbers and of a derived type, with and without ids; ghost cells,
! layouts, log messages and verification.

module test_rows
  use, intrinsic :: iso_fortran_env
  use belay
  use expect
  implicit none
  private
  public :: test_particles, test_others, test_cells, test_ghosts, test_layouts, &
      test_meshes
  public :: test_log

  integer, parameter :: most = 40

  type :: vector
    real(real64) :: x, y
  end type
  type :: cell
    integer(int8) :: is_new
    real(real64) :: t
    real(real32) :: v(2)
    type(vector) :: at
    integer :: not_stored
  end type

  integer :: messages = 0  ! of the log
  integer(int64) :: last_done = -1  ! of the progress

contains

  ! Rank r has 2 r + 1 particles.
  pure integer function first_of(rank)
    integer, intent(in) :: rank
    first_of = rank*rank + 1
  end function

  ! Three arrays with one count, restored where they were.
  subroutine test_particles(comm, dir, rank, size)
    type(belay_comm), intent(in) :: comm
    character(len=*), intent(in) :: dir
    integer, intent(in) :: rank, size
    integer, target :: n, kind(most)
    real(real64), target :: x(3, most), small(3, 1)
    real(real32), target :: s(2, 2, most)
    integer(int64) :: count
    type(belay_state) :: state
    integer :: i, first, ierr
    first = first_of(rank)
    n = 2*rank + 1
    do i = 1, n
      kind(i) = first + i
      x(:, i) = [1, 2, 3] + 10*(first + i)
      s(:, :, i) = real(first + i)
    end do
    call belay_state_create(state)
    call belay_add_rows(state, "kind", kind, n)
    call belay_add_rows(state, "x", x, count=n)
    call belay_add_rows(state, "s", s, n)
    call belay_save(comm, dir//"/particles", 1_int64, state)
    n = 0
    x = -1; s = -1; kind = -1
    call belay_restore(comm, dir//"/particles", state)
    call expect_true("the number of rows", n == 2*rank + 1)
    call expect_true("integers", all(kind(:n) == [(first + i, i=1, n)]) .and. &
        kind(n + 1) == -1)
    call expect_true("vectors", all(x(2, :n) == 2 + 10*kind(:n)))
    call expect_true("matrices", all(s(1, 2, :n) == real(kind(:n))))
    call belay_count_rows(comm, dir//"/particles", "x", count)
    call expect_true("counted rows", count == n)
    call belay_count_rows(comm, dir//"/particles", "y", count, ierr=ierr)
    call expect_code("rows that are not there", belay_not_found, ierr)

    call belay_state_clear(state)
    call belay_add_rows(state, "x", small)  ! always one row
    call belay_restore(comm, dir//"/particles", state, ierr=ierr)
    call expect_code("too many rows on some rank", &
        merge(belay_failed_precondition, belay_ok, size > 1), ierr)
    call belay_state_clear(state)
    call belay_add_rows(state, "x", x(1:2, :), n, ierr=ierr)
    call expect_code("rows that lie apart", belay_invalid_argument, ierr)
    call belay_add_rows(state, "n", n, ierr=ierr)
    call expect_code("a scalar", belay_invalid_argument, ierr)
    call belay_add_rows(state, "x", x, x, ierr=ierr)
    call expect_code("a count that is none", belay_invalid_argument, ierr)
    call belay_state_free(state)
  end subroutine

  ! Other ranks make room for their part first. `total` is the number of
  ! particles, `rank` one of `size`.
  subroutine test_others(comm, dir, total, rank, size)
    type(belay_comm), intent(in) :: comm
    character(len=*), intent(in) :: dir
    integer, intent(in) :: total, rank, size
    real(real64), allocatable, target :: x(:, :)
    integer :: n
    type(belay_state) :: state
    call belay_count_rows(comm, dir//"/particles", "x", n, step=1_int64)
    call expect_true("an even part", n == total/size + &
        merge(1, 0, rank < mod(total, size)))
    allocate (x(3, n), source=-1.0_real64)
    call belay_state_create(state)
    call belay_add_rows(state, "x", x)
    call belay_restore(comm, dir//"/particles", state)
    call expect_true("vectors of others", all(x(3, :) == x(1, :) + 2) .and. &
        all(x(1, :) > 0))
    call belay_state_free(state)
  end subroutine

  ! Cells with numbers from 1 on, of a derived type.
  subroutine test_cells(comm, dir, rank, size)
    type(belay_comm), intent(in) :: comm
    character(len=*), intent(in) :: dir
    integer, intent(in) :: rank, size
    type(cell), target :: cells(most)
    integer, target :: n, ids(most)
    integer(int64), allocatable, target :: wanted(:)
    real(real64), allocatable, target :: t(:)
    type(belay_fields) :: fields
    type(belay_state) :: state
    integer :: i, total, ierr
    total = 4*size + 1
    call belay_fields_create(cells(1), fields)
    call belay_fields_add(fields, "t", cells(1)%t)
    call belay_fields_add(fields, "v", cells(1)%v)
    call belay_fields_add(fields, "at.x", cells(1)%at%x)
    call belay_fields_add(fields, "at.y", cells(1)%at%y)
    call belay_fields_add(fields, "is_new", cells(1)%is_new)
    call belay_fields_add(fields, "n", n, ierr=ierr)
    call expect_code("no component", belay_invalid_argument, ierr)
    call belay_fields_create(cells, fields, ierr)
    call expect_code("no element", belay_invalid_argument, ierr)
    call belay_fields_create(cells(1), fields)
    call belay_fields_add(fields, "t", cells(1)%t)
    call belay_fields_add(fields, "v", cells(1)%v)
    call belay_fields_add(fields, "at.y", cells(1)%at%y)

    n = 0
    do i = total, 1, -1
      if (mod(i, size) /= rank) cycle
      n = n + 1
      ids(n) = i
      cells(n) = cell(1_int8, 0.5d0*i, [1.0, 2.0]*i, vector(-1, i), 7)
    end do
    t = cells(:n)%t
    call belay_state_create(state)
    call belay_add_rows_by_id(state, "cells", ids, cells, n, total, &
        fields)
    call belay_add_rows_by_id(state, "t", ids(:n), t)
    call belay_fields_free(fields)
    call belay_save(comm, dir//"/cells", 1_int64, state)

    ids(1:2) = [total, 1]  ! the same ones on all ranks
    n = 2
    cells = cell(0_int8, 0, [0, 0], vector(0, 0), 8)
    t = [0, 0]
    call belay_state_clear(state)
    wanted = [1, total]
    call belay_add_rows_by_id(state, "t", wanted, t)
    call belay_restore(comm, dir//"/cells", state)
    call expect_true("numbers by id", all(t == [0.5d0, 0.5d0*total]))
    call belay_state_clear(state)
    call belay_fields_create(cells(1), fields)
    call belay_fields_add(fields, "t", cells(1)%t)
    call belay_fields_add(fields, "v", cells(1)%v)
    call belay_fields_add(fields, "at.y", cells(1)%at%y)
    call belay_add_rows_by_id(state, "cells", ids, cells, n, fields=fields)
    call belay_restore(comm, dir//"/cells", state)
    call expect_true("components", all(cells(:2)%t == [0.5d0*total, 0.5d0]) .and. &
        cells(1)%v(2) == 2.0*total .and. cells(2)%at%y == 1)
    call expect_true("other components", all(cells%not_stored == 8) .and. &
        cells(1)%at%x == 0)
    n = most + 1
    call belay_restore(comm, dir//"/cells", state, ierr=ierr)
    call expect_code("more rows than there is room for", &
        belay_invalid_argument, ierr)
    n = 2
    ids(1) = 0
    call belay_restore(comm, dir//"/cells", state, ierr=ierr)
    call expect_code("ids count from 1", belay_invalid_argument, ierr)
    call expect_message('"cells": id -1 at position 0')
    call expect_message("(ids count from 0 here, from 1 in Fortran)")
    call belay_state_clear(state)
    call belay_add_rows_by_id(state, "t", ids, t, ierr=ierr)
    call expect_code("other ids than rows", belay_invalid_argument, ierr)
    call belay_fields_free(fields)
    call belay_state_free(state)
  end subroutine

  ! Columns of a plate with ghost cells around them, two on one side.
  subroutine test_ghosts(comm, dir, rank, size)
    type(belay_comm), intent(in) :: comm
    character(len=*), intent(in) :: dir
    integer, intent(in) :: rank, size
    integer, parameter :: rows = 5, columns = 9
    real(real64), allocatable, target :: u(:, :)
    type(belay_state) :: state
    integer :: a, b, i, j, ierr
    call part(columns, rank, size, a, b)
    allocate (u(0:rows + 1, a - 2:b + 1), source=-1.0_real64)
    do j = a, b
      u(1:rows, j) = [(100.0_real64*i + j, i=1, rows)]
    end do
    call belay_state_create(state)
    call belay_add_piece_with_ghosts(state, "u", u, [rows, columns], [1, a], &
        ghosts=[1, 2], ghosts_after=[1, 1], periodic=[.true., .false.])
    call belay_save(comm, dir//"/ghosts", 1_int64, state)
    u = -1
    call belay_restore(comm, dir//"/ghosts", state)
    do j = a - 2, b + 1
      do i = 0, rows + 1
        if (j < 1 .or. j > columns) then
          call expect_true("outside", u(i, j) == -1)
        else
          call expect_true("inside", u(i, j) == &
              100*(modulo(i - 1, rows) + 1) + j)
        end if
      end do
    end do
    call belay_state_clear(state)
    call belay_add_piece_with_ghosts(state, "u", u, [rows, columns], [1, a], &
        ghosts=[1, 2, 3], ierr=ierr)
    call expect_code("ghosts of another rank", belay_invalid_argument, ierr)
    call belay_state_free(state)
  end subroutine

  ! Columns become rows.
  subroutine test_layouts(comm, dir, rank, size)
    type(belay_comm), intent(in) :: comm
    character(len=*), intent(in) :: dir
    integer, intent(in) :: rank, size
    integer, parameter :: rows = 5, columns = 8
    real(real64), allocatable, target :: u(:, :)
    character(len=:), allocatable :: layout
    integer :: start(2), shape(2), i, j, ierr
    integer(int64) :: start64(3), shape64(3)
    type(belay_state) :: state
    call belay_layout_box("[-,x+y,z] on x=2,y=2,z=2", [3_int64, 9_int64, &
        5_int64], 7, start64, shape64)
    call expect_true("a box", all(start64 == [1, 8, 4]) .and. &
        all(shape64 == [3, 2, 2]))
    call belay_layout_on_ranks("[-,x] on x=2,y=4", 6, layout)
    call expect_true("a layout", layout == "[-,x] on x=3,y=2")
    call belay_layout_on_ranks("[-,x] on x=1", size, layout)
    call belay_layout_box(layout, [rows, columns], rank, start, shape)
    allocate (u(shape(1), shape(2)))
    do j = 1, shape(2)
      u(:, j) = [(100.0_real64*i + start(2) + j - 1, i=1, rows)]
    end do
    call belay_state_create(state)
    call belay_add_laid_out(state, "u", u, layout, [rows, columns], rank)
    call belay_save(comm, dir//"/layouts", 1_int64, state)
    call belay_state_clear(state)
    call belay_layout_on_ranks("[x,-] on x=1", size, layout)
    call belay_layout_box(layout, [rows, columns], rank, start, shape)
    deallocate (u)
    allocate (u(shape(1), shape(2)), source=-1.0_real64)
    call belay_add_laid_out(state, "u", u, layout, [rows, columns], rank)
    call belay_restore(comm, dir//"/layouts", state)
    do j = 1, columns
      call expect_true("rows of a layout", all(u(:, j) == &
          [(100.0_real64*(start(1) + i - 1) + j, i=1, shape(1))]))
    end do
    call belay_state_clear(state)
    call belay_add_laid_out(state, "u", u, layout, [rows + 20, columns], rank, &
        ierr)
    call expect_code("another shape", belay_invalid_argument, ierr)
    call belay_state_clear(state)
    call belay_add_laid_out(state, "u", u, "[x", [rows, columns], rank, ierr)
    call expect_code("no layout", belay_invalid_argument, ierr)
    call belay_state_free(state)
  end subroutine

  ! A mesh of more or fewer ranks than there are.
  subroutine test_meshes(comm, dir, rank, size)
    type(belay_comm), intent(in) :: comm
    character(len=*), intent(in) :: dir
    integer, intent(in) :: rank, size
    real(real64), target :: u(24)
    character(len=32) :: layout
    type(belay_state) :: state
    integer :: ierr, ranks
    u = 0
    do ranks = max(1, size - 1), size + 1, 1
      if (ranks == size) cycle
      write (layout, "(a,i0)") "[-] on x=", ranks
      call belay_state_create(state)
      call belay_add_laid_out(state, "u", u, trim(layout), [24], rank, ierr)
      call expect_true("a rank of the mesh", (ierr == belay_ok) .eqv. &
          (rank < ranks))
      call belay_save(comm, dir//"/mesh", 1_int64, state, ierr=ierr)
      call expect_code("another mesh", belay_invalid_argument, ierr)
      call expect_message("""u"": the layout "//trim(layout)// &
          " is for another number of ranks (need")
      call belay_restore(comm, dir//"/mesh", state, ierr=ierr)
      call expect_code("another mesh", belay_invalid_argument, ierr)
      call belay_state_free(state)
    end do
  end subroutine

  subroutine take_message(level, message)
    integer, intent(in) :: level
    character(len=*), intent(in) :: message
    messages = messages + 1
    call expect_true("a message", level == belay_log_info .and. &
        index(message, "step_00000002") > 0)
  end subroutine

  subroutine test_log(comm, dir, rank)
    type(belay_comm), intent(in) :: comm
    character(len=*), intent(in) :: dir
    integer, intent(in) :: rank
    real(real64), target :: u(100)
    type(belay_state) :: state
    integer :: ierr
    u = 1
    call belay_state_create(state)
    call belay_add(state, "u", u)
    call belay_set_log(take_message)
    call belay_save(comm, dir//"/log", 2_int64, state)
    call belay_set_log()
    call belay_save(comm, dir//"/log", 3_int64, state)
    call expect_true("one message", messages == merge(1, 0, rank == 0))
    call belay_set_log(take_message)
    call belay_set_log(take_no_message, least=9, ierr=ierr)
    call expect_code("no level", belay_invalid_argument, ierr)
    call belay_save(comm, dir//"/log2", 2_int64, state)
    call expect_true("as before", messages == merge(2, 0, rank == 0))
    call belay_set_log()
    call belay_verify(dir//"/log", take_progress)
    call expect_true("progress", last_done >= 800)
    call belay_verify(dir//"/log")
    call belay_verify(dir//"/no_such_run", ierr=ierr)
    call expect_code("no run", belay_not_found, ierr)
    call belay_state_free(state)
  end subroutine

  subroutine take_no_message(level, message)
    integer, intent(in) :: level
    character(len=*), intent(in) :: message
    call expect_true("no message: "//message, level < 0)
  end subroutine

  subroutine take_progress(done, total)
    integer(int64), intent(in) :: done, total
    call expect_true("more than before", done >= last_done .and. done <= total)
    last_done = done
  end subroutine

end module test_rows
