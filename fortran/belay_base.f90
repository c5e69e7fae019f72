! Handles, errors, communicators and options.

module belay_base
  use, intrinsic :: iso_c_binding, only: c_ptr, c_null_ptr, c_int
  use, intrinsic :: iso_fortran_env, only: int32, int64, real64
  use mpi_f08, only: MPI_Comm
  use belay_c
  implicit none
  private

  ! Handles of the module's objects. NAME_create, or belay_reader_open, creates
  ! one, and NAME_free or NAME_close frees it.
  type, public :: belay_comm
    type(c_ptr) :: handle = c_null_ptr
  end type
  type, public :: belay_options
    type(c_ptr) :: handle = c_null_ptr
  end type

  ! Error codes.
  integer, parameter, public :: &
      belay_ok = 0, belay_cancelled = 1, belay_unknown = 2, &
      belay_invalid_argument = 3, belay_deadline_exceeded = 4, &
      belay_not_found = 5, belay_already_exists = 6, &
      belay_permission_denied = 7, belay_resource_exhausted = 8, &
      belay_failed_precondition = 9, belay_aborted = 10, &
      belay_out_of_range = 11, belay_unimplemented = 12, &
      belay_internal = 13, belay_unavailable = 14, belay_data_loss = 15, &
      belay_unauthenticated = 16

  ! The exit code of a program that has stopped in time, for its batch script.
  integer, parameter, public :: belay_stopped_exit_code = 85

  ! As a result: no step. Numbers of steps are never negative.
  integer(int64), parameter, public :: belay_no_step = -1

  public :: belay_error_message, belay_code_name, belay_version
  public :: belay_comm_create, belay_comm_free
  public :: belay_options_create, belay_options_set, belay_options_set_text, &
      belay_options_free
  public :: finish, handle_of

  ! Duplicates a communicator of module mpi_f08, module mpi or mpif.h.
  ! Collective.
  interface belay_comm_create
    module procedure comm_create_f08, comm_create_integer, &
        comm_create_f08_with_options, comm_create_integer_with_options
  end interface

  ! Sets an option by its name: a character, integer, real(8) or logical value.
  ! Local.
  interface belay_options_set
    module procedure set_text, set_int32, set_int64, set_real64, set_logical
  end interface

contains

  ! Returns the text of the last error. Local. If the text has ids, it adds that
  ! these count from 0.
  function belay_error_message() result(text)
    character(len=:), allocatable :: text
    text = to_fortran(c_error_message())
    if (index(text, ": id ") > 0 .or. index(text, " has id ") > 0) then
      text = text//" (ids count from 0 here, from 1 in Fortran)"
    end if
  end function

  ! Returns the name of a code, such as NOT_FOUND. Local.
  function belay_code_name(code) result(text)
    integer, intent(in) :: code
    character(len=:), allocatable :: text
    text = to_fortran(c_code_name(int(code, c_int)))
  end function

  ! Returns the version of the library. Local.
  function belay_version() result(text)
    character(len=:), allocatable :: text
    text = to_fortran(c_version())
  end function

  ! Returns an error code to the caller in `ierr`. If that is absent, an error
  ! ends all ranks of the job.
  subroutine finish(code, ierr)
    integer(c_int), intent(in) :: code
    integer, intent(out), optional :: ierr
    if (present(ierr)) then
      ierr = code
    else
      call c_check(code, c_null_ptr, 0_c_int)
    end if
  end subroutine

  ! Returns the handle of options that may be absent.
  function handle_of(options) result(handle)
    type(belay_options), intent(in), optional :: options
    type(c_ptr) :: handle
    handle = c_null_ptr
    if (present(options)) handle = options%handle
  end function

  subroutine comm_create_f08(mpi, comm, ierr)
    type(MPI_Comm), intent(in) :: mpi
    type(belay_comm), intent(out) :: comm
    integer, intent(out), optional :: ierr
    call comm_create_integer(mpi%MPI_VAL, comm, ierr)
  end subroutine

  subroutine comm_create_integer(mpi, comm, ierr)
    integer, intent(in) :: mpi
    type(belay_comm), intent(out) :: comm
    integer, intent(out), optional :: ierr
    call finish(c_comm_create(int(mpi, c_int), c_null_ptr, comm%handle), ierr)
  end subroutine

  subroutine comm_create_f08_with_options(mpi, comm, options, ierr)
    type(MPI_Comm), intent(in) :: mpi
    type(belay_comm), intent(out) :: comm
    type(belay_options), intent(in) :: options
    integer, intent(out), optional :: ierr
    call comm_create_integer_with_options(mpi%MPI_VAL, comm, options, ierr)
  end subroutine

  subroutine comm_create_integer_with_options(mpi, comm, options, ierr)
    integer, intent(in) :: mpi
    type(belay_comm), intent(out) :: comm
    type(belay_options), intent(in) :: options
    integer, intent(out), optional :: ierr
    call finish(c_comm_create(int(mpi, c_int), options%handle, comm%handle), &
        ierr)
  end subroutine

  ! Frees the duplicate. Collective.
  subroutine belay_comm_free(comm, ierr)
    type(belay_comm), intent(inout) :: comm
    integer, intent(out), optional :: ierr
    call finish(c_comm_free(comm%handle), ierr)
  end subroutine

  ! Creates options with their default values. Local.
  subroutine belay_options_create(options, ierr)
    type(belay_options), intent(out) :: options
    integer, intent(out), optional :: ierr
    call finish(c_options_create(options%handle), ierr)
  end subroutine

  ! Local.
  subroutine belay_options_free(options)
    type(belay_options), intent(inout) :: options
    call c_options_free(options%handle)
  end subroutine

  ! Sets options by a text such as "max_to_keep=3 async_save": with blanks between
  ! them, and a name alone for true. Local.
  subroutine belay_options_set_text(options, text, ierr)
    type(belay_options), intent(in) :: options
    character(len=*), intent(in) :: text
    integer, intent(out), optional :: ierr
    call finish(c_options_set_text(options%handle, to_c(text)), ierr)
  end subroutine

  subroutine set_text(options, name, value, ierr)
    type(belay_options), intent(in) :: options
    character(len=*), intent(in) :: name, value
    integer, intent(out), optional :: ierr
    call finish(c_options_set(options%handle, to_c(name), to_c(value)), ierr)
  end subroutine

  subroutine set_int64(options, name, value, ierr)
    type(belay_options), intent(in) :: options
    character(len=*), intent(in) :: name
    integer(int64), intent(in) :: value
    integer, intent(out), optional :: ierr
    character(len=24) :: text
    write (text, "(i0)") value
    call set_text(options, name, text, ierr)
  end subroutine

  subroutine set_int32(options, name, value, ierr)
    type(belay_options), intent(in) :: options
    character(len=*), intent(in) :: name
    integer(int32), intent(in) :: value
    integer, intent(out), optional :: ierr
    call set_int64(options, name, int(value, int64), ierr)
  end subroutine

  subroutine set_real64(options, name, value, ierr)
    type(belay_options), intent(in) :: options
    character(len=*), intent(in) :: name
    real(real64), intent(in) :: value
    integer, intent(out), optional :: ierr
    character(len=32) :: text
    write (text, "(es25.16e3)") value
    call set_text(options, name, adjustl(text), ierr)
  end subroutine

  subroutine set_logical(options, name, value, ierr)
    type(belay_options), intent(in) :: options
    character(len=*), intent(in) :: name
    logical, intent(in) :: value
    integer, intent(out), optional :: ierr
    if (value) then
      call set_text(options, name, "true", ierr)
    else
      call set_text(options, name, "false", ierr)
    end if
  end subroutine

end module belay_base
