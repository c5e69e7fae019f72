! Rows of arrays, of which each rank may have any number.

module belay_rows
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: int32, int64
  use belay_base
  use belay_c, only: step_or_latest, to_c
  use belay_states
  implicit none
  private

  ! The components of a derived type that are stored.
  type, public, bind(C) :: belay_fields
    type(c_ptr) :: handle = c_null_ptr
    type(c_ptr) :: element = c_null_ptr
    integer(c_size_t) :: bytes = 0
  end type

  public :: belay_fields_create, belay_fields_add, belay_fields_free
  public :: belay_add_rows, belay_add_rows_by_id, belay_count_rows

  ! Returns how many rows of a key this rank will get from a step or, without a
  ! number, from the newest one, so that the program can allocate memory before
  ! a restore. Collective. `dir`, `key` and `step` must be equal on all ranks.
  ! `count` is integer(8), or integer(4) if the number fits.
  interface belay_count_rows
    module procedure count_rows_int32, count_rows_int64
  end interface

  interface
    subroutine c_fields_create(element, fields, ierr) &
        bind(C, name="belay_fortran_fields_create")
      import
      type(*), dimension(..), intent(in), target :: element
      type(belay_fields), intent(out) :: fields
      integer(c_int), intent(out), optional :: ierr
    end subroutine

    subroutine c_fields_add(fields, name, component, ierr) &
        bind(C, name="belay_fortran_fields_add")
      import
      type(belay_fields), intent(in) :: fields
      character(len=*, kind=c_char), intent(in) :: name
      type(*), dimension(..), intent(in), target :: component
      integer(c_int), intent(out), optional :: ierr
    end subroutine

    ! Adds the rows of an array that this rank holds: the first `count` along
    ! the last axis of `value`. Local. `count` is an integer(4) or integer(8)
    ! that saves read and restores set; without it, all elements along the axis
    ! are rows. Rows of a derived type need `fields`. If the number of ranks is
    ! the same as in the save, each rank gets its own rows back; otherwise each
    ! gets an even part of all rows.
    subroutine belay_add_rows(state, key, value, count, fields, ierr) &
        bind(C, name="belay_fortran_add_rows")
      import
      type(belay_state), intent(in) :: state
      character(len=*, kind=c_char), intent(in) :: key
      type(*), dimension(..), intent(inout), target :: value
      type(*), dimension(..), intent(inout), target, optional :: count
      type(belay_fields), intent(in), optional :: fields
      integer(c_int), intent(out), optional :: ierr
    end subroutine

    ! Adds rows with ids, such as the cells of an unstructured mesh: row i has
    ! the id ids(i). Local. `ids` are integer(4) or integer(8) and count from 1.
    ! In a save, the ids of all ranks must be 1, 2, ..., each once. A restore
    ! reads the rows of the first `count` ids. If `total`, an integer(4) or
    ! integer(8), is given, it must be the total number of rows of all ranks.
    subroutine belay_add_rows_by_id(state, key, ids, value, count, total, &
        fields, ierr) bind(C, name="belay_fortran_add_rows_by_id")
      import
      type(belay_state), intent(in) :: state
      character(len=*, kind=c_char), intent(in) :: key
      type(*), dimension(..), intent(in), target :: ids
      type(*), dimension(..), intent(inout), target :: value
      type(*), dimension(..), intent(inout), target, optional :: count
      type(*), dimension(..), intent(in), target, optional :: total
      type(belay_fields), intent(in), optional :: fields
      integer(c_int), intent(out), optional :: ierr
    end subroutine

    subroutine c_fields_free(fields) bind(C, name="belay_fields_free")
      import
      type(c_ptr) :: fields
    end subroutine

    integer(c_int) function c_count_rows(comm, dir, step, key, count) &
        bind(C, name="belay_count_rows")
      import
      type(c_ptr), value :: comm
      character(kind=c_char), intent(in) :: dir(*), key(*)
      integer(c_int64_t), value :: step
      integer(c_int64_t), intent(out) :: count
    end function
  end interface

contains

  ! Creates an empty list of the stored components of a derived type. Local.
  ! `element` is any element of that type, and must stay allocated while
  ! components are added.
  subroutine belay_fields_create(element, fields, ierr)
    type(*), dimension(..), intent(in), target :: element
    type(belay_fields), intent(out) :: fields
    integer, intent(out), optional :: ierr
    call c_fields_create(element, fields, ierr)
  end subroutine

  ! Adds a component of that element under a name: a number, an array, or a
  ! component of a nested derived type, such as p%velocity%x. Local. Components
  ! that are not added are not stored.
  subroutine belay_fields_add(fields, name, component, ierr)
    type(belay_fields), intent(in) :: fields
    character(len=*), intent(in) :: name
    type(*), dimension(..), intent(in), target :: component
    integer, intent(out), optional :: ierr
    call c_fields_add(fields, name, component, ierr)
  end subroutine

  ! Local. Rows that were added with the fields keep a copy of them.
  subroutine belay_fields_free(fields)
    type(belay_fields), intent(inout) :: fields
    call c_fields_free(fields%handle)
  end subroutine

  subroutine count_rows_int64(comm, dir, key, count, step, ierr)
    type(belay_comm), intent(in) :: comm
    character(len=*), intent(in) :: dir, key
    integer(int64), intent(out) :: count
    integer(int64), intent(in), optional :: step
    integer, intent(out), optional :: ierr
    count = 0
    call finish(c_count_rows(comm%handle, to_c(dir), step_or_latest(step), &
        to_c(key), count), ierr)
  end subroutine

  subroutine count_rows_int32(comm, dir, key, count, step, ierr)
    type(belay_comm), intent(in) :: comm
    character(len=*), intent(in) :: dir, key
    integer(int32), intent(out) :: count
    integer(int64), intent(in), optional :: step
    integer, intent(out), optional :: ierr
    integer(int64) :: rows
    call count_rows_int64(comm, dir, key, rows, step, ierr)
    count = int(min(rows, int(huge(count), int64)), int32)
  end subroutine

end module belay_rows
