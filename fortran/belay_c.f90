! The functions of belay/belay_c.h, as Fortran calls them.
! Programs use the module belay instead.

module belay_c
  use, intrinsic :: iso_c_binding
  implicit none
  public

  ! C leaves results as they are after an error, so they are inout here: what the
  ! caller has put there must stay.
  interface
    integer(c_int) function c_comm_create(comm, options, result) &
        bind(C, name="belay_fortran_comm_create")
      import
      integer(c_int), value :: comm
      type(c_ptr), value :: options
      type(c_ptr) :: result
    end function

    integer(c_int) function c_comm_free(comm) &
        bind(C, name="belay_comm_free")
      import
      type(c_ptr) :: comm
    end function

    integer(c_int) function c_options_create(result) &
        bind(C, name="belay_options_create")
      import
      type(c_ptr) :: result
    end function

    integer(c_int) function c_options_set_text(options, text) &
        bind(C, name="belay_options_set_text")
      import
      type(c_ptr), value :: options
      character(kind=c_char), intent(in) :: text(*)
    end function

    integer(c_int) function c_options_set(options, name, value) &
        bind(C, name="belay_options_set")
      import
      type(c_ptr), value :: options
      character(kind=c_char), intent(in) :: name(*)
      character(kind=c_char), intent(in) :: value(*)
    end function

    subroutine c_options_free(options) &
        bind(C, name="belay_options_free")
      import
      type(c_ptr) :: options
    end subroutine

    integer(c_int) function c_options_set_sharding_policy(options, &
        description, parameters, group, context) &
        bind(C, name="belay_options_set_sharding_policy")
      import
      type(c_ptr), value :: options
      character(kind=c_char), intent(in) :: description(*)
      character(kind=c_char), intent(in), optional :: parameters(*)
      type(c_funptr), value :: group
      type(c_ptr), value :: context
    end function

    integer(c_int) function c_grouping_add(grouping, group, piece, offset, &
        shape) &
        bind(C, name="belay_grouping_add")
      import
      type(c_ptr), value :: grouping
      integer(c_int64_t), value :: group
      integer(c_int64_t), value :: piece
      integer(c_int64_t), intent(in), optional :: offset(*)
      integer(c_int64_t), intent(in), optional :: shape(*)
    end function

    integer(c_int) function c_state_create(result) &
        bind(C, name="belay_state_create")
      import
      type(c_ptr) :: result
    end function

    subroutine c_state_free(state) &
        bind(C, name="belay_state_free")
      import
      type(c_ptr) :: state
    end subroutine

    integer(c_int) function c_state_clear(state) &
        bind(C, name="belay_state_clear")
      import
      type(c_ptr), value :: state
    end function

    integer(c_int) function c_save(comm, dir, step, state, options) &
        bind(C, name="belay_save")
      import
      type(c_ptr), value :: comm
      character(kind=c_char), intent(in) :: dir(*)
      integer(c_int64_t), value :: step
      type(c_ptr), value :: state
      type(c_ptr), value :: options
    end function

    integer(c_int) function c_restore(comm, dir, step, state, options, &
        restored_step) &
        bind(C, name="belay_restore")
      import
      type(c_ptr), value :: comm
      character(kind=c_char), intent(in) :: dir(*)
      integer(c_int64_t), value :: step
      type(c_ptr), value :: state
      type(c_ptr), value :: options
      integer(c_int64_t), intent(inout), optional :: restored_step
    end function

    integer(c_int) function c_restore_latest(comm, dir, state, &
        options, restored_step) &
        bind(C, name="belay_restore_latest")
      import
      type(c_ptr), value :: comm
      character(kind=c_char), intent(in) :: dir(*)
      type(c_ptr), value :: state
      type(c_ptr), value :: options
      integer(c_int64_t), intent(inout), optional :: restored_step
    end function

    integer(c_int) function c_list_steps(dir, capacity, steps, count) &
        bind(C, name="belay_list_steps")
      import
      character(kind=c_char), intent(in) :: dir(*)
      integer(c_int64_t), value :: capacity
      integer(c_int64_t), intent(inout) :: steps(*)
      integer(c_int64_t), intent(inout) :: count
    end function

    integer(c_int) function c_saver_create(comm, options, result) &
        bind(C, name="belay_saver_create")
      import
      type(c_ptr), value :: comm
      type(c_ptr), value :: options
      type(c_ptr) :: result
    end function

    integer(c_int) function c_saver_save(saver, dir, step, state, options) &
        bind(C, name="belay_saver_save")
      import
      type(c_ptr), value :: saver
      character(kind=c_char), intent(in) :: dir(*)
      integer(c_int64_t), value :: step
      type(c_ptr), value :: state
      type(c_ptr), value :: options
    end function

    integer(c_int) function c_saver_poll(saver, is_pending) &
        bind(C, name="belay_saver_poll")
      import
      type(c_ptr), value :: saver
      integer(c_int), intent(inout) :: is_pending
    end function

    integer(c_int) function c_saver_wait(saver) &
        bind(C, name="belay_saver_wait")
      import
      type(c_ptr), value :: saver
    end function

    integer(c_int) function c_saver_wait_for_snapshot(saver) &
        bind(C, name="belay_saver_wait_for_snapshot")
      import
      type(c_ptr), value :: saver
    end function

    integer(c_int) function c_saver_committed_step(saver, step) &
        bind(C, name="belay_saver_committed_step")
      import
      type(c_ptr), value :: saver
      integer(c_int64_t), intent(inout) :: step
    end function

    integer(c_int) function c_saver_close(saver) &
        bind(C, name="belay_saver_close")
      import
      type(c_ptr) :: saver
    end function

    integer(c_int) function c_manager_create(comm, state, dir, options, &
        result) &
        bind(C, name="belay_manager_create")
      import
      type(c_ptr), value :: comm
      type(c_ptr), value :: state
      character(kind=c_char), intent(in) :: dir(*)
      type(c_ptr), value :: options
      type(c_ptr) :: result
    end function

    integer(c_int) function c_manager_restore_latest(manager, options, &
        restored_step) &
        bind(C, name="belay_manager_restore_latest")
      import
      type(c_ptr), value :: manager
      type(c_ptr), value :: options
      integer(c_int64_t), intent(inout), optional :: restored_step
    end function

    integer(c_int) function c_manager_restore(manager, step, options) &
        bind(C, name="belay_manager_restore")
      import
      type(c_ptr), value :: manager
      integer(c_int64_t), value :: step
      type(c_ptr), value :: options
    end function

    integer(c_int) function c_manager_should_save(manager, step, &
        should_save) &
        bind(C, name="belay_manager_should_save")
      import
      type(c_ptr), value :: manager
      integer(c_int64_t), value :: step
      integer(c_int), intent(inout) :: should_save
    end function

    integer(c_int) function c_manager_set_metric(manager, name, value) &
        bind(C, name="belay_manager_set_metric")
      import
      type(c_ptr), value :: manager
      character(kind=c_char), intent(in) :: name(*)
      real(c_double), value :: value
    end function

    integer(c_int) function c_manager_save(manager, step, force, saved) &
        bind(C, name="belay_manager_save")
      import
      type(c_ptr), value :: manager
      integer(c_int64_t), value :: step
      integer(c_int), value :: force
      integer(c_int), intent(inout), optional :: saved
    end function

    integer(c_int) function c_manager_should_stop(manager, should_stop) &
        bind(C, name="belay_manager_should_stop")
      import
      type(c_ptr), value :: manager
      integer(c_int), intent(inout) :: should_stop
    end function

    integer(c_int) function c_manager_latest_step(manager, step) &
        bind(C, name="belay_manager_latest_step")
      import
      type(c_ptr), value :: manager
      integer(c_int64_t), intent(inout) :: step
    end function

    integer(c_int) function c_manager_wait(manager) &
        bind(C, name="belay_manager_wait")
      import
      type(c_ptr), value :: manager
    end function

    integer(c_int) function c_manager_wait_for_snapshot(manager) &
        bind(C, name="belay_manager_wait_for_snapshot")
      import
      type(c_ptr), value :: manager
    end function

    integer(c_int) function c_manager_close(manager) &
        bind(C, name="belay_manager_close")
      import
      type(c_ptr) :: manager
    end function

    integer(c_int) function c_run_open(comm, dir, options, result) &
        bind(C, name="belay_fortran_run_open")
      import
      integer(c_int), value :: comm
      character(kind=c_char), intent(in) :: dir(*), options(*)
      type(c_ptr) :: result
    end function

    type(c_ptr) function c_run_state(run) bind(C, name="belay_run_state")
      import
      type(c_ptr), value :: run
    end function

    type(c_ptr) function c_run_manager(run) bind(C, name="belay_run_manager")
      import
      type(c_ptr), value :: run
    end function

    type(c_ptr) function c_run_comm(run) bind(C, name="belay_run_comm")
      import
      type(c_ptr), value :: run
    end function

    integer(c_int) function c_run_restore(run, options, restored_step) &
        bind(C, name="belay_run_restore")
      import
      type(c_ptr), value :: run
      character(kind=c_char), intent(in) :: options(*)
      integer(c_int64_t), intent(inout) :: restored_step
    end function

    integer(c_int) function c_run_step(run, step, outcome) &
        bind(C, name="belay_run_step")
      import
      type(c_ptr), value :: run
      integer(c_int64_t), value :: step
      integer(c_int), intent(inout) :: outcome
    end function

    integer(c_int) function c_run_close(run) bind(C, name="belay_run_close")
      import
      type(c_ptr) :: run
    end function

    integer(c_int) function c_reader_open(path, result) &
        bind(C, name="belay_reader_open")
      import
      character(kind=c_char), intent(in) :: path(*)
      type(c_ptr) :: result
    end function

    subroutine c_reader_close(reader) &
        bind(C, name="belay_reader_close")
      import
      type(c_ptr) :: reader
    end subroutine

    integer(c_int) function c_reader_step(reader, step) &
        bind(C, name="belay_reader_step")
      import
      type(c_ptr), value :: reader
      integer(c_int64_t), intent(inout) :: step
    end function

    integer(c_int) function c_reader_time(reader, seconds) &
        bind(C, name="belay_reader_time")
      import
      type(c_ptr), value :: reader
      integer(c_int64_t), intent(inout) :: seconds
    end function

    integer(c_int) function c_reader_num_arrays(reader, count) &
        bind(C, name="belay_reader_num_arrays")
      import
      type(c_ptr), value :: reader
      integer(c_int64_t), intent(inout) :: count
    end function

    integer(c_int) function c_reader_key(reader, index, key) &
        bind(C, name="belay_reader_key")
      import
      type(c_ptr), value :: reader
      integer(c_int64_t), value :: index
      type(c_ptr), intent(inout) :: key
    end function

    integer(c_int) function c_reader_describe(reader, key, dtype, ndim, &
        capacity, shape) &
        bind(C, name="belay_reader_describe")
      import
      type(c_ptr), value :: reader
      character(kind=c_char), intent(in) :: key(*)
      integer(c_int), intent(inout) :: dtype
      integer(c_int), intent(inout) :: ndim
      integer(c_int), value :: capacity
      integer(c_int64_t), intent(inout) :: shape(*)
    end function

    subroutine c_check(code, file, line) &
        bind(C, name="belay_check")
      import
      integer(c_int), value :: code
      type(c_ptr), value :: file
      integer(c_int), value :: line
    end subroutine

    type(c_ptr) function c_error_message() bind(C, name="belay_error_message")
      import
    end function
    type(c_ptr) function c_code_name(code) bind(C, name="belay_code_name")
      import
      integer(c_int), value :: code
    end function
    type(c_ptr) function c_version() bind(C, name="belay_version")
      import
    end function
  end interface

contains

  ! Returns a Fortran text as a C string, without trailing blanks.
  pure function to_c(text) result(bytes)
    character(len=*), intent(in) :: text
    character(len=:, kind=c_char), allocatable :: bytes
    bytes = trim(text)//c_null_char
  end function

  ! Returns a C string as a Fortran text; "" for a null pointer.
  function to_fortran(text) result(copy)
    type(c_ptr), intent(in) :: text
    character(len=:), allocatable :: copy
    character(kind=c_char), pointer :: bytes(:)
    integer :: i, length
    interface
      integer(c_size_t) function strlen(string) bind(C)
        import
        type(c_ptr), value :: string
      end function
    end interface
    copy = ""
    if (.not. c_associated(text)) return
    length = int(strlen(text))
    call c_f_pointer(text, bytes, [length])
    deallocate (copy)
    allocate (character(len=length) :: copy)
    do i = 1, length
      copy(i:i) = bytes(i)
    end do
  end function

  ! Returns `step` or, if it is absent, the number that selects the newest step
  ! in C.
  pure function step_or_latest(step) result(number)
    integer(c_int64_t), intent(in), optional :: step
    integer(c_int64_t) :: number
    number = -huge(number) - 1
    if (present(step)) number = step
  end function

end module belay_c
