! Pieces with ghost cells, and layouts on a mesh of ranks.

module belay_layouts
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: int32, int64
  use belay_base
  use belay_c, only: to_c
  use belay_states
  implicit none
  private

  public :: belay_add_piece_with_ghosts, belay_add_laid_out
  public :: belay_layout_box, belay_layout_on_ranks

  ! As belay_add_piece, for an array `value` that holds ghost cells around the
  ! piece, which a restore fills if they are inside the array. Local. `start` is
  ! the index of the first element of the piece itself. `ghosts` has the number
  ! of ghost cells before the piece for each axis, and also after it unless
  ! `ghosts_after` is given. If `periodic`, a logical of any kind, is true for
  ! an axis, ghost cells beyond one end of it are filled from its other end. The
  ! integers are integer(4) or integer(8), with one number for each axis of
  ! `value`.
  interface belay_add_piece_with_ghosts
    subroutine add_ghosts_int32(state, key, value, global_shape, start, ghosts, &
        ghosts_after, periodic, ierr) &
        bind(C, name="belay_fortran_add_piece_with_ghosts")
      import
      type(belay_state), intent(in) :: state
      character(len=*, kind=c_char), intent(in) :: key
      type(*), dimension(..), intent(inout), target :: value
      integer(c_int32_t), intent(in) :: global_shape(:), start(:), ghosts(:)
      integer(c_int32_t), intent(in), optional :: ghosts_after(:)
      type(*), intent(in), optional :: periodic(:)
      integer(c_int), intent(out), optional :: ierr
    end subroutine

    subroutine add_ghosts_int64(state, key, value, global_shape, start, ghosts, &
        ghosts_after, periodic, ierr) &
        bind(C, name="belay_fortran_add_piece_with_ghosts")
      import
      type(belay_state), intent(in) :: state
      character(len=*, kind=c_char), intent(in) :: key
      type(*), dimension(..), intent(inout), target :: value
      integer(c_int64_t), intent(in) :: global_shape(:), start(:), ghosts(:)
      integer(c_int64_t), intent(in), optional :: ghosts_after(:)
      type(*), intent(in), optional :: periodic(:)
      integer(c_int), intent(out), optional :: ierr
    end subroutine
  end interface

  ! Adds the piece that a rank holds of an array that is laid out on a mesh of
  ! ranks. Local. `layout` is a text such as "[-,x] on x=2,y=4": an array of two
  ! axes in Fortran order, the second of which is partitioned over the mesh axis
  ! x, on a mesh of 8 ranks whose last axis, y, varies fastest. "x+y" partitions
  ! an axis over two mesh axes. `global_shape` is integer(4) or integer(8),
  ! `rank` counts from 0.
  interface belay_add_laid_out
    subroutine add_laid_out_int32(state, key, value, layout, global_shape, rank, &
        ierr) bind(C, name="belay_fortran_add_laid_out")
      import
      type(belay_state), intent(in) :: state
      character(len=*, kind=c_char), intent(in) :: key, layout
      type(*), dimension(..), intent(inout), target :: value
      integer(c_int32_t), intent(in) :: global_shape(:)
      integer(c_int), intent(in) :: rank
      integer(c_int), intent(out), optional :: ierr
    end subroutine

    subroutine add_laid_out_int64(state, key, value, layout, global_shape, rank, &
        ierr) bind(C, name="belay_fortran_add_laid_out")
      import
      type(belay_state), intent(in) :: state
      character(len=*, kind=c_char), intent(in) :: key, layout
      type(*), dimension(..), intent(inout), target :: value
      integer(c_int64_t), intent(in) :: global_shape(:)
      integer(c_int), intent(in) :: rank
      integer(c_int), intent(out), optional :: ierr
    end subroutine
  end interface

  ! Returns the index of the first element, counted from 1, and the shape of the
  ! piece that a rank holds in a layout. Local. `global_shape`, `start` and
  ! `shape` are integer(4) or integer(8).
  interface belay_layout_box
    module procedure layout_box_int32, layout_box_int64
  end interface

  interface
    integer(c_int) function c_layout_box(layout, ndim, global_shape, rank, &
        start, shape) bind(C, name="belay_fortran_layout_box")
      import
      character(kind=c_char), intent(in) :: layout(*)
      integer(c_int), value :: ndim, rank
      integer(c_int64_t), intent(in) :: global_shape(*)
      integer(c_int64_t), intent(out) :: start(*), shape(*)
    end function

    integer(c_int) function c_layout_on_ranks(layout, num_ranks, buffer, &
        capacity) bind(C, name="belay_layout_on_ranks")
      import
      character(kind=c_char), intent(in) :: layout(*)
      integer(c_int), value :: num_ranks
      character(kind=c_char), intent(out) :: buffer(*)
      integer(c_int64_t), value :: capacity
    end function
  end interface

contains

  subroutine layout_box_int64(layout, global_shape, rank, start, shape, ierr)
    character(len=*), intent(in) :: layout
    integer(int64), intent(in) :: global_shape(:)
    integer, intent(in) :: rank
    integer(int64), intent(out) :: start(size(global_shape))
    integer(int64), intent(out) :: shape(size(global_shape))
    integer, intent(out), optional :: ierr
    start = 1
    shape = 0
    call finish(c_layout_box(to_c(layout), size(global_shape), &
        int(global_shape, c_int64_t), int(rank, c_int), start, shape), ierr)
  end subroutine

  subroutine layout_box_int32(layout, global_shape, rank, start, shape, ierr)
    character(len=*), intent(in) :: layout
    integer(int32), intent(in) :: global_shape(:)
    integer, intent(in) :: rank
    integer(int32), intent(out) :: start(size(global_shape))
    integer(int32), intent(out) :: shape(size(global_shape))
    integer, intent(out), optional :: ierr
    integer(int64) :: first(size(global_shape)), lengths(size(global_shape))
    call layout_box_int64(layout, int(global_shape, int64), rank, first, &
        lengths, ierr)
    start = int(first, int32)
    shape = int(lengths, int32)
  end subroutine

  ! Returns the same layout for another number of ranks, as text. Local.
  ! "[-,x] on x=2,y=4" becomes "[-,x] on x=3,y=2" on 6 ranks.
  subroutine belay_layout_on_ranks(layout, ranks, text, ierr)
    character(len=*), intent(in) :: layout
    integer, intent(in) :: ranks
    character(len=:), allocatable, intent(out) :: text
    integer, intent(out), optional :: ierr
    character(len=len_trim(layout) + 256, kind=c_char) :: buffer
    integer(c_int) :: code
    code = c_layout_on_ranks(to_c(layout), int(ranks, c_int), buffer, &
        len(buffer, kind=c_int64_t))
    text = ""
    if (code == belay_ok) text = buffer(:index(buffer, c_null_char) - 1)
    call finish(code, ierr)
  end subroutine

end module belay_layouts
