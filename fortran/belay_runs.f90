! Savers, managers and runs.

module belay_runs
  use, intrinsic :: iso_c_binding, only: c_ptr, c_null_ptr, c_int, c_int64_t
  use, intrinsic :: iso_fortran_env, only: int64, real64
  use mpi_f08, only: MPI_Comm
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

  ! The parts are for all that the procedures of a run do not do: the program adds
  ! its values to the state. They belong to the run: do not close or free them.
  type, public :: belay_run
    type(c_ptr) :: handle = c_null_ptr
    type(belay_comm) :: comm
    type(belay_state) :: state
    type(belay_manager) :: manager
  end type

  ! What belay_run_step has done: nothing, as no save was due; the step is
  ! committed; it is written in the background; the save has failed, which the
  ! options tolerate.
  integer, parameter, public :: belay_step_skipped = 0, belay_step_saved = 1, &
      belay_step_begun = 2, belay_step_failed = 3

  ! Duplicates a communicator of mpi_f08, of the module mpi or of mpif.h, and
  ! opens the run in `dir`. Collective. `options` is a text as for
  ! belay_options_set_text, of manager and save options.
  interface belay_run_open
    module procedure run_open_f08, run_open_integer
  end interface

  public :: belay_run_open, belay_run_restore, belay_run_step
  public :: belay_run_should_stop, belay_run_close
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

  ! Copies the values and returns; a background thread writes them. Collective.
  ! Arguments as for belay_save.
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

  ! Waits for the save in progress, if there is one. Collective.
  subroutine belay_saver_wait(saver, ierr)
    type(belay_saver), intent(in) :: saver
    integer, intent(out), optional :: ierr
    call finish(c_saver_wait(saver%handle), ierr)
  end subroutine

  ! If the option snapshot is lazy, waits until the values are copied. Call it
  ! before the program changes them. Collective.
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

  ! Waits for the save in progress and frees the saver. Collective.
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
  ! belay_no_step if there is none; the program then initializes the values.
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

  ! Sets should_save to .true. if the rules require a save of this step, or if
  ! the job must stop and this is its last save. Collective. Call it in each
  ! step.
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

  ! Saves the step if the rules require it, or if `force` is true. Collective.
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

  ! Sets should_stop to .true. if the ranks have agreed that the job must stop.
  ! Local. After the last save, end the program with exit code 85.
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

  ! Sets a metric of the next step that is saved. Local. Only the metrics of
  ! rank 0 are used.
  subroutine belay_manager_set_metric(manager, name, value, ierr)
    type(belay_manager), intent(in) :: manager
    character(len=*), intent(in) :: name
    real(real64), intent(in) :: value
    integer, intent(out), optional :: ierr
    call finish(c_manager_set_metric(manager%handle, to_c(name), value), ierr)
  end subroutine

  ! Waits for the save in the background, releases the run and frees the
  ! manager. Collective.
  subroutine belay_manager_close(manager, ierr)
    type(belay_manager), intent(inout) :: manager
    integer, intent(out), optional :: ierr
    call finish(c_manager_close(manager%handle), ierr)
  end subroutine

  subroutine run_open_f08(mpi, dir, run, options, ierr)
    type(MPI_Comm), intent(in) :: mpi
    character(len=*), intent(in) :: dir
    type(belay_run), intent(out) :: run
    character(len=*), intent(in), optional :: options
    integer, intent(out), optional :: ierr
    call run_open_integer(mpi%MPI_VAL, dir, run, options, ierr)
  end subroutine

  subroutine run_open_integer(mpi, dir, run, options, ierr)
    integer, intent(in) :: mpi
    character(len=*), intent(in) :: dir
    type(belay_run), intent(out) :: run
    character(len=*), intent(in), optional :: options
    integer, intent(out), optional :: ierr
    integer(c_int) :: code
    character(len=:), allocatable :: text
    text = ""
    if (present(options)) text = options
    code = c_run_open(int(mpi, c_int), to_c(dir), to_c(text), run%handle)
    run%comm%handle = c_run_comm(run%handle)
    run%state%handle = c_run_state(run%handle)
    run%manager%handle = c_run_manager(run%handle)
    call finish(code, ierr)
  end subroutine

  ! Restores the newest step that is not damaged. Collective. Returns
  ! belay_no_step if there is none: initialize the values then.
  ! `options` is a text of restore options.
  subroutine belay_run_restore(run, restored_step, options, ierr)
    type(belay_run), intent(in) :: run
    integer(int64), intent(out) :: restored_step
    character(len=*), intent(in), optional :: options
    integer, intent(out), optional :: ierr
    character(len=:), allocatable :: text
    text = ""
    if (present(options)) text = options
    restored_step = belay_no_step
    call finish(c_run_restore(run%handle, to_c(text), restored_step), ierr)
  end subroutine

  ! Saves the step if the rules ask for it, or if the job must stop. Collective.
  ! Call it at the end of each step.
  subroutine belay_run_step(run, step, outcome, ierr)
    type(belay_run), intent(in) :: run
    integer(int64), intent(in) :: step
    integer, intent(out), optional :: outcome
    integer, intent(out), optional :: ierr
    integer(c_int) :: code, done
    done = belay_step_skipped
    code = c_run_step(run%handle, step, done)
    if (present(outcome)) outcome = done
    call finish(code, ierr)
  end subroutine

  ! As belay_manager_should_stop. Local.
  subroutine belay_run_should_stop(run, should_stop, ierr)
    type(belay_run), intent(in) :: run
    logical, intent(out) :: should_stop
    integer, intent(out), optional :: ierr
    call belay_manager_should_stop(run%manager, should_stop, ierr)
  end subroutine

  ! Waits, and frees the run and its parts. Collective.
  subroutine belay_run_close(run, ierr)
    type(belay_run), intent(inout) :: run
    integer, intent(out), optional :: ierr
    run%comm%handle = c_null_ptr
    run%state%handle = c_null_ptr
    run%manager%handle = c_null_ptr
    call finish(c_run_close(run%handle), ierr)
  end subroutine

end module belay_runs
