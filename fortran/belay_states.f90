! States, and saving and restoring them.

module belay_states
  use, intrinsic :: iso_c_binding, only: c_ptr, c_null_ptr, c_int, &
      c_int32_t, c_int64_t, c_char
  use, intrinsic :: iso_fortran_env, only: int32, int64
  use belay_base
  use belay_c
  implicit none
  private

  type, public, bind(C) :: belay_state
    type(c_ptr) :: handle = c_null_ptr
  end type

  ! How a restore on another number of ranks treats per-rank values. Error: it
  ! fails. Even: it splits all values evenly, in rank order. First: it gives the
  ! values of rank 0 to all ranks.
  integer, parameter, public :: belay_other_ranks_error = 0, &
      belay_other_ranks_even = 1, belay_other_ranks_first = 2

  public :: belay_state_create, belay_state_clear, belay_state_free
  public :: belay_add, belay_add_piece, belay_add_per_rank, &
      belay_add_from_rank0, belay_set_address
  public :: belay_save, belay_restore, belay_restore_latest
  public :: belay_list_steps

  ! Procedures that keep the address of a value are bind(C): otherwise gfortran
  ! would pass them copies of components and substrings of arrays, and belay
  ! could not refuse them.
  interface
    ! Adds a value that is equal on all ranks: a scalar or an array of up to 15
    ! axes of type integer, real(4), real(8), complex(4), complex(8), logical or
    ! character. Local. Sections such as u(1:n, a:b) are saved and restored
    ! where they are; the elements must be dense along the first axis.
    subroutine belay_add(state, key, value, ierr) &
        bind(C, name="belay_fortran_add")
      import
      type(belay_state), intent(in) :: state
      character(len=*, kind=c_char), intent(in) :: key
      type(*), dimension(..), intent(inout), target :: value
      integer(c_int), intent(out), optional :: ierr
    end subroutine

    ! Adds a number or an array that every rank holds but that may differ
    ! between ranks, such as a time step that each rank has computed with a
    ! different rounding error. Local. A save stores the value of rank 0 and
    ! compares nothing; a restore gives it to all ranks.
    subroutine belay_add_from_rank0(state, key, value, ierr) &
        bind(C, name="belay_fortran_add_from_rank0")
      import
      type(belay_state), intent(in) :: state
      character(len=*, kind=c_char), intent(in) :: key
      type(*), dimension(..), intent(inout), target :: value
      integer(c_int), intent(out), optional :: ierr
    end subroutine

    ! Adds values that are separate on each rank; their number may differ
    ! between ranks. Local. They are stored as one list, and must be contiguous.
    subroutine belay_add_per_rank(state, key, value, other_ranks, ierr) &
        bind(C, name="belay_fortran_add_per_rank")
      import
      type(belay_state), intent(in) :: state
      character(len=*, kind=c_char), intent(in) :: key
      type(*), dimension(..), intent(inout), target :: value
      integer(c_int), intent(in), optional :: other_ranks
      integer(c_int), intent(out), optional :: ierr
    end subroutine

    ! Changes the address of the values of a key: after pointers were swapped,
    ! after move_alloc, or after an array was reallocated. Local. `value` is the
    ! array that would now be passed to the call that added the key; a different
    ! type or shape is an error, and so are rows. `piece` is the index of that
    ! call among all calls for this key, by default 1.
    subroutine belay_set_address(state, key, value, piece, ierr) &
        bind(C, name="belay_fortran_set_address")
      import
      type(belay_state), intent(in) :: state
      character(len=*, kind=c_char), intent(in) :: key
      type(*), dimension(..), intent(inout), target :: value
      integer(c_int), intent(in), optional :: piece
      integer(c_int), intent(out), optional :: ierr
    end subroutine
  end interface

  ! Adds a piece of an array of shape `global_shape` that is partitioned over
  ! the ranks. Local. `start` is the index of the first element of the piece, in
  ! an array whose indices begin at 1. Both are integer(4) or integer(8), with
  ! one number for each axis of `value`.
  interface belay_add_piece
    subroutine add_piece_int32(state, key, value, global_shape, start, ierr) &
        bind(C, name="belay_fortran_add_piece")
      import
      type(belay_state), intent(in) :: state
      character(len=*, kind=c_char), intent(in) :: key
      type(*), dimension(..), intent(inout), target :: value
      integer(c_int32_t), intent(in) :: global_shape(:), start(:)
      integer(c_int), intent(out), optional :: ierr
    end subroutine

    subroutine add_piece_int64(state, key, value, global_shape, start, ierr) &
        bind(C, name="belay_fortran_add_piece")
      import
      type(belay_state), intent(in) :: state
      character(len=*, kind=c_char), intent(in) :: key
      type(*), dimension(..), intent(inout), target :: value
      integer(c_int64_t), intent(in) :: global_shape(:), start(:)
      integer(c_int), intent(out), optional :: ierr
    end subroutine
  end interface

contains

  ! Creates an empty state. Local. A state keeps the addresses of the values:
  ! saves read from them and restores write to them. Give the values the
  ! attribute target, and do not move them until the state is freed, or pass new
  ! addresses to belay_set_address.
  subroutine belay_state_create(state, ierr)
    type(belay_state), intent(out) :: state
    integer, intent(out), optional :: ierr
    call finish(c_state_create(state%handle), ierr)
  end subroutine

  ! Frees the list, not the values. Local.
  subroutine belay_state_free(state)
    type(belay_state), intent(inout) :: state
    call c_state_free(state%handle)
  end subroutine

  ! Removes all values from the list. Local. The program then adds its current
  ! values: use this if arrays were reallocated, or if values come and go.
  subroutine belay_state_clear(state, ierr)
    type(belay_state), intent(in) :: state
    integer, intent(out), optional :: ierr
    call finish(c_state_clear(state%handle), ierr)
  end subroutine

  ! Saves the state as a step. Collective. `dir`, `step` and `options` (save
  ! options) must be equal on all ranks.
  subroutine belay_save(comm, dir, step, state, options, ierr)
    type(belay_comm), intent(in) :: comm
    character(len=*), intent(in) :: dir
    integer(int64), intent(in) :: step
    type(belay_state), intent(in) :: state
    type(belay_options), intent(in), optional :: options
    integer, intent(out), optional :: ierr
    call finish(c_save(comm%handle, to_c(dir), step, state%handle, &
        handle_of(options)), ierr)
  end subroutine

  ! Restores the values of the state from a step or, without a number, from the
  ! newest one. Collective. `dir`, `step` and `options` (restore options) must
  ! be equal on all ranks.
  subroutine belay_restore(comm, dir, state, step, options, restored_step, ierr)
    type(belay_comm), intent(in) :: comm
    character(len=*), intent(in) :: dir
    type(belay_state), intent(in) :: state
    integer(int64), intent(in), optional :: step
    type(belay_options), intent(in), optional :: options
    integer(int64), intent(out), optional :: restored_step
    integer, intent(out), optional :: ierr
    call finish(c_restore(comm%handle, to_c(dir), step_or_latest(step), &
        state%handle, handle_of(options), restored_step), ierr)
  end subroutine

  ! Restores the newest step, if there is one; otherwise leaves the values
  ! unchanged and returns belay_no_step. Collective. `dir` and `options`
  ! (restore options) must be equal on all ranks.
  subroutine belay_restore_latest(comm, dir, state, restored_step, &
      options, ierr)
    type(belay_comm), intent(in) :: comm
    character(len=*), intent(in) :: dir
    type(belay_state), intent(in) :: state
    integer(int64), intent(out) :: restored_step
    type(belay_options), intent(in), optional :: options
    integer, intent(out), optional :: ierr
    restored_step = belay_no_step
    call finish(c_restore_latest(comm%handle, to_c(dir), &
        state%handle, handle_of(options), restored_step), ierr)
  end subroutine

  ! Returns the numbers of the committed steps in `dir`, ascending. Local.
  subroutine belay_list_steps(dir, steps, ierr)
    character(len=*), intent(in) :: dir
    integer(int64), allocatable, intent(out) :: steps(:)
    integer, intent(out), optional :: ierr
    integer(c_int64_t) :: count
    integer(c_int) :: code
    allocate (steps(64))
    do
      count = 0
      code = c_list_steps(to_c(dir), size(steps, kind=c_int64_t), steps, count)
      if (count <= size(steps)) exit
      deallocate (steps)
      allocate (steps(count))
    end do
    steps = steps(:count)
    call finish(code, ierr)
  end subroutine

end module belay_states
