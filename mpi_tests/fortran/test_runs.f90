! Errors, savers, managers, runs and readers.

module test_runs
  use, intrinsic :: iso_fortran_env
  use mpi_f08, only: MPI_COMM_WORLD
  use belay
  use expect
  implicit none
  private
  public :: test_errors, test_saver, test_manager, test_run, test_reader

contains

  ! Mistakes of the last rank are errors of all.
  ! Errors count axes and indices as the program does.
  subroutine test_axes(comm, dir, rank, size)
    type(belay_comm), intent(in) :: comm
    character(len=*), intent(in) :: dir
    integer, intent(in) :: rank, size
    real(real64), target :: u(3, 4), v(3, 4)
    type(belay_state) :: state
    integer :: ierr
    call belay_state_create(state)
    call belay_add_piece(state, "w[0, 1]", u, [3, 4*size], [1, 4*rank + 2])
    call belay_save(comm, dir//"/axes", 1_int64, state, ierr=ierr)
    call expect_code("past the end", belay_out_of_range, ierr)
    call expect_message("past axis 2 of (3, ")
    call expect_message("""w[0, 1]""")
    call expect_message("check section (1:3, ")
    call belay_state_free(state)
    call belay_state_create(state)
    call belay_add_piece(state, "u", u, [3, 4*size], [0, 4*rank + 1])
    call belay_save(comm, dir//"/axes", 1_int64, state, ierr=ierr)
    call expect_message("the first index of axis 1 is below 1 (need 1 or more, found 0)")
    call belay_state_free(state)
    call belay_state_create(state)
    call belay_add_piece(state, "u", u, [3, 4*size], [1, 4*rank + 1])
    u = 1
    call belay_save(comm, dir//"/axes", 1_int64, state, ierr=ierr)
    call expect_code("a whole array", belay_ok, ierr)
    call belay_state_free(state)
    call belay_state_create(state)
    call belay_add(state, "u", v)
    call belay_restore(comm, dir//"/axes", state, ierr=ierr)
    if (size > 1) call expect_message("(need (3, 4), found (3, ")
    call belay_state_free(state)
  end subroutine

  subroutine test_errors(comm, dir, rank, size)
    type(belay_comm), intent(in) :: comm
    character(len=*), intent(in) :: dir
    integer, intent(in) :: rank, size
    integer, parameter :: quadruple = selected_real_kind(30)
    type :: particle
      integer(int64) :: id
      real(real64) :: x
      integer(int32) :: kind
    end type
    type(particle), target :: particles(4)
    real(quadruple), target :: q
    real(real64), target :: u(3, 4)
    type(belay_state) :: state
    integer :: ierr, mistake
    call test_axes(comm, dir, rank, size)
    u = 1
    do mistake = 1, 6
      call belay_state_create(state)
      if (rank == size - 1) then
        select case (mistake)
        case (1)
          call belay_add(state, "q", q, ierr=ierr)
        case (2)
          call belay_add(state, "particles", particles, ierr=ierr)
        case (3)
          call belay_add(state, "u", u(3:1:-1, :), ierr=ierr)
        case (4)
          call belay_add_piece(state, "u", u, [12], [1, 1], ierr=ierr)
        case (5)
          call belay_add_piece(state, "u", u, [3, 4], [1], ierr=ierr)
        case (6)
          call belay_add_per_rank(state, "u", u(1:2, :), ierr=ierr)
        end select
        call expect_code("a mistake", belay_invalid_argument, ierr)
      end if
      call belay_save(comm, dir//"/errors", 1_int64, state, ierr=ierr)
      call expect_code("saving it", belay_invalid_argument, ierr)
      call expect_message("add """)
      call belay_state_free(state)
    end do
    call belay_state_create(state)
    call belay_add(state, "u", u)
    call belay_restore(comm, dir//"/errors", state, ierr=ierr)
    call expect_code("no step", belay_not_found, ierr)
    call belay_save(comm, dir//"/errors", 1_int64, state, ierr=ierr)
    call expect_code("a save", belay_ok, ierr)
    call belay_add(state, "no such key", u)
    call belay_restore(comm, dir//"/errors", state, ierr=ierr)
    call expect_code("no such key", belay_not_found, ierr)
    call expect_message("no such key")
    call belay_state_free(state)
    call expect_true("a version", len(belay_version()) > 0)
  end subroutine

  subroutine test_saver(comm, dir)
    type(belay_comm), intent(in) :: comm
    character(len=*), intent(in) :: dir
    real(real64), target :: u(5)
    integer(int64) :: step
    integer(int64), allocatable :: steps(:)
    type(belay_saver) :: saver
    type(belay_state) :: state
    type(belay_options) :: options
    logical :: is_pending
    call belay_options_create(options)
    call belay_options_set(options, "max_bytes_per_second", 100000000)
    call belay_options_set(options, "snapshot", "lazy")
    call belay_saver_create(comm, saver, options)
    call belay_options_free(options)
    call belay_state_create(state)
    call belay_add(state, "u", u)
    do step = 1, 3
      u = real(step, real64)
      call belay_saver_save(saver, dir//"/saver", step, state)
      call belay_saver_wait_for_snapshot(saver)
      u = -1
      is_pending = .true.
      do while (is_pending)
        call belay_saver_poll(saver, is_pending)
      end do
    end do
    call belay_saver_wait(saver)
    call belay_saver_committed_step(saver, step)
    call expect_true("a committed step", step == 3)
    call belay_saver_close(saver)
    call belay_restore_latest(comm, dir//"/saver", state, step)
    call expect_true("what was copied", step == 3 .and. all(u == 3))
    call belay_list_steps(dir//"/saver", steps)
    call expect_true("the steps", all(steps == [1, 2, 3]))
    call belay_restore_latest(comm, dir//"/nothing", state, step)
    call expect_true("no step", step == belay_no_step)
    call belay_state_free(state)
  end subroutine

  subroutine test_manager(comm, dir)
    type(belay_comm), intent(in) :: comm
    character(len=*), intent(in) :: dir
    integer(int64), target :: counter
    integer(int64) :: step
    type(belay_manager) :: manager
    type(belay_state) :: state
    type(belay_options) :: options
    logical :: should_save, should_stop, saved
    integer :: ierr
    call belay_options_create(options)
    call belay_options_set(options, "save_interval_steps", 3)
    call belay_options_set(options, "save_on_steps", 5)
    call belay_options_set(options, "best_metric", "loss")
    call belay_options_set(options, "best_mode", "min")
    call belay_options_set(options, "max_to_keep", 2_int64)
    call belay_options_set(options, "deadline_seconds", 60d0)
    call belay_options_set(options, "durable", .false.)
    call belay_options_set(options, "stop_signals", "SIGUSR1")
    call belay_state_create(state)
    call belay_add(state, "counter", counter)
    call belay_manager_create(comm, state, dir//"/manager", manager, options)
    call belay_manager_restore_latest(manager, step)
    call expect_true("no step yet", step == belay_no_step)
    do step = 0, 9
      counter = step
      call belay_manager_should_save(manager, step, should_save)
      call expect_true("whether to save", &
          should_save .eqv. (mod(step, 3_int64) == 0 .or. step == 5))
      if (.not. should_save) cycle
      call belay_manager_set_metric(manager, "loss", 9d0 - step)
      call belay_manager_save(manager, step, saved=saved)
      call expect_true("saved", saved)
    end do
    call belay_manager_wait(manager)
    call belay_manager_should_stop(manager, should_stop)
    call expect_true("no reason to stop", .not. should_stop)
    call belay_manager_latest_step(manager, step)
    call expect_true("the latest", step == 9)
    call belay_manager_restore(manager, 6_int64)
    call expect_true("an older one", counter == 6)
    call belay_manager_close(manager)
    call belay_options_set(options, "max_to_keep", "some")
    call belay_manager_create(comm, state, dir//"/manager", manager, options, &
        ierr)
    call expect_code("a number", belay_invalid_argument, ierr)
    call belay_options_free(options)
    call belay_state_free(state)
  end subroutine

  ! Reads what test_ranks and test_strings of module test_values have saved.
  subroutine test_run(dir, rank)
    character(len=*), intent(in) :: dir
    integer, intent(in) :: rank
    type(belay_run) :: run
    real(real64), target :: time
    integer(int64) :: restored, step
    integer :: outcome, ierr
    logical :: should_stop
    call belay_run_open(MPI_COMM_WORLD, dir//"/run", run, &
        "save_interval_steps = 3  max_to_keep=2")
    call belay_add(run%state, "time", time)
    call belay_run_restore(run, restored)
    call expect_true("no step", restored == belay_no_step)
    do step = 1, 7
      time = real(step, real64)
      call belay_run_step(run, step, outcome)
      call expect_true("a step", outcome == merge(belay_step_saved, &
          belay_step_skipped, step == 1 .or. mod(step, 3_int64) == 0))
    end do
    call belay_run_should_stop(run, should_stop)
    call expect_true("goes on", .not. should_stop)
    call belay_manager_latest_step(run%manager, step)
    call expect_true("the latest step", step == 6)
    call belay_run_close(run)
    call belay_run_close(run)
    time = -1
    call belay_run_open(MPI_COMM_WORLD%MPI_VAL, dir//"/run", run)
    call belay_add(run%state, "time", time)
    call belay_run_restore(run, restored)
    call expect_true("the restored step", restored == 6 .and. time == 6)
    call belay_run_close(run)
    call belay_run_open(MPI_COMM_WORLD, dir//"/run", run, &
        trim(merge("max_to_kep=2", "max_to_keep ", rank == 0)), ierr)
    call expect_code("a bad option", belay_invalid_argument, ierr)
    call expect_message("close to it: ""max_to_keep""")
    outcome = -1
    call belay_run_step(run, 1_int64, outcome, ierr)
    call expect_code("a run that is not open", belay_invalid_argument, ierr)
    call expect_true("nothing is saved", outcome == belay_step_skipped)
  end subroutine

  subroutine test_reader(dir)
    character(len=*), intent(in) :: dir
    type(belay_reader) :: reader
    character(len=:), allocatable :: key
    character(len=10) :: name
    character(len=12) :: names(2)
    integer(int64), allocatable :: shape(:)
    integer(int64) :: count, step
    integer :: dtype, i, ierr
    real(real64) :: whole(3, 7), box(2, 3), apart(4, 3)
    real(real32) :: single(3, 7)
    call belay_reader_open(dir//"/ranks", reader)
    call belay_reader_step(reader, step)
    call belay_reader_time(reader, count)
    call expect_true("when it was saved", count > 1700000000_int64)
    call belay_reader_num_arrays(reader, count)
    call belay_reader_key(reader, 2_int64, key)
    call expect_true("what there is", step == 1 .and. count == 8 .and. key == "u1")
    call belay_reader_describe(reader, "u3", dtype, shape)
    call expect_true("a shape", dtype == belay_f64 .and. &
        all(shape == [2, 3, 7]))
    call belay_reader_read(reader, "u2", whole)
    call expect_true("an array", count_wrong(whole, 21, 0) == 0)
    call belay_reader_read(reader, "u2", box, start=[2, 4])
    call expect_true("a box", all(box == reshape([(whole(2:3, i), i=4, 6)], [2, 3])))
    apart = -1
    call belay_reader_read(reader, "u2", apart(1:4:3, :), start=[2_int64, 4_int64])
    call expect_true("a section", all(apart(1:4:3, :) == box) .and. &
        all(apart(2:3, :) == -1))
    call belay_reader_read(reader, "u2", single, ierr=ierr)
    call expect_code("another type", belay_failed_precondition, ierr)
    call belay_reader_read(reader, "u2", box, start=[2, 6], ierr=ierr)
    call expect_code("a box outside", belay_out_of_range, ierr)
    call belay_reader_read(reader, "u2", box, start=[2], ierr=ierr)
    call expect_code("one axis too few", belay_invalid_argument, ierr)
    call belay_reader_read(reader, "u8", box, ierr=ierr)
    call expect_code("no such key", belay_not_found, ierr)
    call belay_reader_close(reader)
    call belay_reader_open(dir//"/strings", reader)
    call belay_reader_read(reader, "name", name)
    call expect_true("a string", name == "two words")
    call belay_reader_read(reader, "names", names)
    call expect_true("strings", names(2) == "south")
    call belay_reader_close(reader)
    call belay_reader_open(dir//"/nothing", reader, ierr)
    call expect_code("no such directory", belay_not_found, ierr)
  end subroutine

end module test_runs
