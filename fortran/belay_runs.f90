! Savers and managers.

module belay_runs
  use, intrinsic :: iso_c_binding, only: c_ptr, c_null_ptr, c_int, c_int64_t
  use, intrinsic :: iso_fortran_env, only: int64, real64
  use belay_base
  use belay_c
  use belay_states
  implicit none
  private

  type, public :: belay_saver
    type(c_ptr) :: handle = c_null_ptr
  end type
  type, public :: belay_manager
    type(c_ptr) :: handle = c_null_ptr
  end type

  public :: belay_saver_create, belay_saver_save, belay_saver_poll
  public :: belay_saver_wait, belay_saver_committed_step, belay_saver_close
  public :: belay_saver_wait_for_snapshot, belay_manager_wait_for_snapshot
  public :: belay_manager_set_metric
  public :: belay_manager_create, belay_manager_restore
  public :: belay_manager_restore_latest
  public :: belay_manager_should_save, belay_manager_save
  public :: belay_manager_should_stop, belay_manager_latest_step
  public :: belay_manager_wait, belay_manager_close

contains

  ! Creates a saver. Collective. `options` are async options.
  subroutine belay_saver_create(comm, saver, options, ierr)
    type(belay_comm), intent(in) :: comm
    type(belay_saver), intent(out) :: saver
    type(belay_options), intent(in), optional :: options
    integer, intent(out), optional :: ierr
    call finish(c_saver_create(comm%handle, handle_of(options), &
        saver%handle), ierr)
  end subroutine

  ! Copies the values and returns; a thread writes them. Collective. Arguments
  ! as for belay_save.
  subroutine belay_saver_save(saver, dir, step, state, options, ierr)
    type(belay_saver), intent(in) :: saver
    character(len=*), intent(in) :: dir
    integer(int64), intent(in) :: step
    type(belay_state), intent(in) :: state
    type(belay_options), intent(in), optional :: options
    integer, intent(out), optional :: ierr
    call finish(c_saver_save(saver%handle, to_c(dir), step, state%handle, &
        handle_of(options)), ierr)
  end subroutine

  ! Commits the step once all ranks have written it. Collective. Call it in each
  ! time step.
  subroutine belay_saver_poll(saver, is_pending, ierr)
    type(belay_saver), intent(in) :: saver
    logical, intent(out), optional :: is_pending
    integer, intent(out), optional :: ierr
    integer(c_int) :: code, answer
    answer = 0
    code = c_saver_poll(saver%handle, answer)
    if (present(is_pending)) is_pending = answer /= 0
    call finish(code, ierr)
  end subroutine

  ! Waits for the save that is under way. Collective.
  subroutine belay_saver_wait(saver, ierr)
    type(belay_saver), intent(in) :: saver
    integer, intent(out), optional :: ierr
    call finish(c_saver_wait(saver%handle), ierr)
  end subroutine

  ! With the option snapshot lazy: waits until the values are copied, before the
  ! program changes them. Collective.
  subroutine belay_saver_wait_for_snapshot(saver, ierr)
    type(belay_saver), intent(in) :: saver
    integer, intent(out), optional :: ierr
    call finish(c_saver_wait_for_snapshot(saver%handle), ierr)
  end subroutine

  ! Returns the last step that the saver has committed, or belay_no_step. Local.
  subroutine belay_saver_committed_step(saver, step, ierr)
    type(belay_saver), intent(in) :: saver
    integer(int64), intent(out) :: step
    integer, intent(out), optional :: ierr
    step = belay_no_step
    call finish(c_saver_committed_step(saver%handle, step), ierr)
  end subroutine

  ! Waits, and frees the saver. Collective.
  subroutine belay_saver_close(saver, ierr)
    type(belay_saver), intent(inout) :: saver
    integer, intent(out), optional :: ierr
    call finish(c_saver_close(saver%handle), ierr)
  end subroutine

  ! Opens the run in `dir`. Collective. `options` are manager options, and save
  ! options for its saves.
  subroutine belay_manager_create(comm, state, dir, manager, options, ierr)
    type(belay_comm), intent(in) :: comm
    type(belay_state), intent(in) :: state
    character(len=*), intent(in) :: dir
    type(belay_manager), intent(out) :: manager
    type(belay_options), intent(in), optional :: options
    integer, intent(out), optional :: ierr
    call finish(c_manager_create(comm%handle, state%handle, to_c(dir), &
        handle_of(options), manager%handle), ierr)
  end subroutine

  ! Restores the newest step that is not damaged. Collective. Returns
  ! belay_no_step if there is none: initialize the values then.
  subroutine belay_manager_restore_latest(manager, restored_step, options, ierr)
    type(belay_manager), intent(in) :: manager
    integer(int64), intent(out) :: restored_step
    type(belay_options), intent(in), optional :: options
    integer, intent(out), optional :: ierr
    restored_step = belay_no_step
    call finish(c_manager_restore_latest(manager%handle, handle_of(options), &
        restored_step), ierr)
  end subroutine

  ! Restores the step with this number. Collective.
  subroutine belay_manager_restore(manager, step, options, ierr)
    type(belay_manager), intent(in) :: manager
    integer(int64), intent(in) :: step
    type(belay_options), intent(in), optional :: options
    integer, intent(out), optional :: ierr
    call finish(c_manager_restore(manager%handle, step, handle_of(options)), &
        ierr)
  end subroutine

  ! Sets should_save if the rules ask to save this step, or if the job must stop
  ! and this is its last save. Collective. Call it in each step.
  subroutine belay_manager_should_save(manager, step, should_save, ierr)
    type(belay_manager), intent(in) :: manager
    integer(int64), intent(in) :: step
    logical, intent(out) :: should_save
    integer, intent(out), optional :: ierr
    integer(c_int) :: code, answer
    answer = 0
    code = c_manager_should_save(manager%handle, step, answer)
    should_save = answer /= 0
    call finish(code, ierr)
  end subroutine

  ! Saves the step if the rules ask for it, or if `force` is true. Collective.
  subroutine belay_manager_save(manager, step, force, saved, ierr)
    type(belay_manager), intent(in) :: manager
    integer(int64), intent(in) :: step
    logical, intent(in), optional :: force
    logical, intent(out), optional :: saved
    integer, intent(out), optional :: ierr
    integer(c_int) :: code, answer, forced
    forced = 0
    if (present(force)) forced = merge(1, 0, force)
    answer = 0
    code = c_manager_save(manager%handle, step, forced, answer)
    if (present(saved)) saved = answer /= 0
    call finish(code, ierr)
  end subroutine

  ! Sets should_stop if the ranks have agreed that the job must stop. Local. End
  ! the program after the last save with exit code 85.
  subroutine belay_manager_should_stop(manager, should_stop, ierr)
    type(belay_manager), intent(in) :: manager
    logical, intent(out) :: should_stop
    integer, intent(out), optional :: ierr
    integer(c_int) :: code, answer
    answer = 0
    code = c_manager_should_stop(manager%handle, answer)
    should_stop = answer /= 0
    call finish(code, ierr)
  end subroutine

  ! Returns the newest step that is not known to be damaged, or belay_no_step.
  ! Local.
  subroutine belay_manager_latest_step(manager, step, ierr)
    type(belay_manager), intent(in) :: manager
    integer(int64), intent(out) :: step
    integer, intent(out), optional :: ierr
    step = belay_no_step
    call finish(c_manager_latest_step(manager%handle, step), ierr)
  end subroutine

  ! Waits for the save in the background, if there is one. Collective.
  subroutine belay_manager_wait(manager, ierr)
    type(belay_manager), intent(in) :: manager
    integer, intent(out), optional :: ierr
    call finish(c_manager_wait(manager%handle), ierr)
  end subroutine

  ! As belay_saver_wait_for_snapshot. Collective.
  subroutine belay_manager_wait_for_snapshot(manager, ierr)
    type(belay_manager), intent(in) :: manager
    integer, intent(out), optional :: ierr
    call finish(c_manager_wait_for_snapshot(manager%handle), ierr)
  end subroutine

  ! Sets a metric of the next step that is saved. Local. Only those of rank 0
  ! count.
  subroutine belay_manager_set_metric(manager, name, value, ierr)
    type(belay_manager), intent(in) :: manager
    character(len=*), intent(in) :: name
    real(real64), intent(in) :: value
    integer, intent(out), optional :: ierr
    call finish(c_manager_set_metric(manager%handle, to_c(name), value), ierr)
  end subroutine

  ! Waits, releases the run and frees the manager. Collective.
  subroutine belay_manager_close(manager, ierr)
    type(belay_manager), intent(inout) :: manager
    integer, intent(out), optional :: ierr
    call finish(c_manager_close(manager%handle), ierr)
  end subroutine

end module belay_runs
