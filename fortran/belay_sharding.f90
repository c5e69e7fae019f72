! Custom sharding policies.

module belay_sharding
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: int32, int64
  use belay_base
  use belay_c
  implicit none
  private

  ! A piece that a task will write, without its values. Axes and `start` follow
  ! Fortran's conventions. `dtype` is a value such as belay_f64, `device` a text
  ! such as "/job:train/replica:0/task:5/device:GPU:0", and `node` the lowest
  ! rank that shares memory with the task.
  type, public :: belay_shardable_tensor
    character(len=:), allocatable :: key, device
    integer :: dtype = 0
    integer(int64), allocatable :: global_shape(:), start(:), shape(:)
    integer(int64) :: bytes = 0
    integer :: node = 0
  end type

  ! The groups into which a policy puts the pieces.
  type, public :: belay_grouping
    type(c_ptr) :: handle = c_null_ptr
  end type

  type, bind(C) :: c_piece
    type(c_ptr) :: key
    integer(c_int) :: dtype
    integer(c_int) :: ndim
    type(c_ptr) :: global_shape
    type(c_ptr) :: offset
    type(c_ptr) :: shape
    type(c_ptr) :: device
    integer(c_int64_t) :: bytes
    integer(c_int) :: node
  end type

  abstract interface
    ! Puts each piece into one group with belay_grouping_add. `ierr` is belay_ok
    ! on entry; any other value ends the save on all ranks.
    subroutine group_pieces(pieces, grouping, ierr)
      import :: belay_shardable_tensor, belay_grouping
      type(belay_shardable_tensor), intent(in) :: pieces(:)
      type(belay_grouping), intent(in) :: grouping
      integer, intent(inout) :: ierr
    end subroutine
  end interface

  ! More axes than any array has.
  integer, parameter :: most_axes = 64

  public :: belay_options_set_sharding_policy, belay_grouping_add

  ! Puts a piece into a group; both count from 1. Local. If `start` and `shape`
  ! are given, puts only that section of the piece, in indices of the whole
  ! array; the sections of a piece must tile it. No group may stay empty.
  interface belay_grouping_add
    module procedure add_whole, add_int32, add_int64
  end interface

contains

  ! Sets the sharding policy of saves. Local. Rank 0 calls `group` once for each
  ! task that writes something. `description` names it in errors. `parameters`
  ! is a text that describes everything besides the pieces that the result
  ! depends on; without it, every save plans again. `group` must not be an
  ! internal procedure, and must not call MPI.
  subroutine belay_options_set_sharding_policy(options, description, group, &
      parameters, ierr)
    type(belay_options), intent(in) :: options
    character(len=*), intent(in) :: description
    procedure(group_pieces) :: group
    character(len=*), intent(in), optional :: parameters
    integer, intent(out), optional :: ierr
    type(c_ptr) :: context
    ! The address of the program's procedure itself, so nothing needs to be
    ! freed.
    context = transfer(c_funloc(group), context)
    if (present(parameters)) then
      call finish(c_options_set_sharding_policy(options%handle, &
          to_c(description), to_c(parameters), c_funloc(call_group), context), &
          ierr)
    else
      call finish(c_options_set_sharding_policy(options%handle, &
          to_c(description), group=c_funloc(call_group), context=context), ierr)
    end if
  end subroutine

  integer(c_int) function call_group(context, pieces, count, grouping) &
      bind(C, name="belay_fortran_call_group") result(code)
    type(c_ptr), value :: context
    integer(c_int64_t), value :: count
    type(c_piece), intent(in) :: pieces(count)
    type(c_ptr), value :: grouping
    procedure(group_pieces), pointer :: group
    type(c_funptr) :: address
    type(belay_shardable_tensor), allocatable :: given(:)
    integer(int64) :: i
    integer :: ierr
    address = transfer(context, address)
    call c_f_procpointer(address, group)
    allocate (given(count))
    do i = 1, count
      given(i)%key = to_fortran(pieces(i)%key)
      given(i)%device = to_fortran(pieces(i)%device)
      given(i)%dtype = pieces(i)%dtype
      given(i)%global_shape = axes(pieces(i)%global_shape, pieces(i)%ndim)
      given(i)%start = axes(pieces(i)%offset, pieces(i)%ndim) + 1
      given(i)%shape = axes(pieces(i)%shape, pieces(i)%ndim)
      given(i)%bytes = pieces(i)%bytes
      given(i)%node = pieces(i)%node
    end do
    ierr = belay_ok
    call group(given, belay_grouping(grouping), ierr)
    code = int(ierr, c_int)
  end function

  ! Returns numbers from C, one for each axis, in Fortran order.
  function axes(numbers, ndim) result(reversed)
    type(c_ptr), intent(in) :: numbers
    integer(c_int), intent(in) :: ndim
    integer(int64) :: reversed(ndim)
    integer(c_int64_t), pointer :: given(:)
    if (ndim == 0) return
    call c_f_pointer(numbers, given, [ndim])
    reversed = given(ndim:1:-1)
  end function

  subroutine add_whole(grouping, group, piece, ierr)
    type(belay_grouping), intent(in) :: grouping
    integer, intent(in) :: group, piece
    integer, intent(out), optional :: ierr
    call finish(c_grouping_add(grouping%handle, group - 1_c_int64_t, &
        piece - 1_c_int64_t), ierr)
  end subroutine

  subroutine add_int64(grouping, group, piece, start, shape, ierr)
    type(belay_grouping), intent(in) :: grouping
    integer, intent(in) :: group, piece
    integer(int64), intent(in) :: start(:), shape(:)
    integer, intent(out), optional :: ierr
    call finish(c_grouping_add(grouping%handle, group - 1_c_int64_t, &
        piece - 1_c_int64_t, for_c(start - 1), for_c(shape)), ierr)
  end subroutine

  ! Returns numbers in C order, followed by zeros for axes that the caller has
  ! omitted; such a box tiles nothing.
  function for_c(numbers) result(reversed)
    integer(int64), intent(in) :: numbers(:)
    integer(c_int64_t) :: reversed(most_axes)
    integer :: ndim
    ndim = min(size(numbers), most_axes)
    reversed = 0
    reversed(1:ndim) = numbers(ndim:1:-1)
  end function

  subroutine add_int32(grouping, group, piece, start, shape, ierr)
    type(belay_grouping), intent(in) :: grouping
    integer, intent(in) :: group, piece
    integer(int32), intent(in) :: start(:), shape(:)
    integer, intent(out), optional :: ierr
    call add_int64(grouping, group, piece, int(start, int64), &
        int(shape, int64), ierr)
  end subroutine

end module belay_sharding
