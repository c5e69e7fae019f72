! Log messages and their levels.

module belay_log
  use, intrinsic :: iso_c_binding
  use belay_base
  use belay_c, only: to_fortran
  implicit none
  private

  ! Debug: duration of each stage. Info: a save or a restore is done. Warning:
  ! done, but needs attention. Error: failed; the caller gets the same error.
  integer, parameter, public :: belay_log_debug = 0, belay_log_info = 1, &
      belay_log_warning = 2, belay_log_error = 3

  public :: belay_set_log

  abstract interface
    ! Receives one message of one or more lines.
    subroutine log_sink(level, message)
      integer, intent(in) :: level
      character(len=*), intent(in) :: message
    end subroutine
  end interface

  interface
    integer(c_int) function c_set_log(sink, context, least) &
        bind(C, name="belay_set_log")
      import
      type(c_funptr), value :: sink
      type(c_ptr), value :: context
      integer(c_int), value :: least
    end function
  end interface

  type :: sink_holder
    procedure(log_sink), pointer, nopass :: sink => null()
  end type
  type(sink_holder), target :: the_holder

contains

  ! Makes belay call `sink(level, message)` with each message of level `least`
  ! (default: belay_log_info) and above. Local, for this process. Without
  ! `sink`, the environment variable BELAY_LOG decides again. A sink must not be
  ! an internal procedure, and must not call belay_set_log.
  subroutine belay_set_log(sink, least, ierr)
    procedure(log_sink), optional :: sink
    integer, intent(in), optional :: least
    integer, intent(out), optional :: ierr
    procedure(log_sink), pointer :: former
    integer(c_int) :: level, code
    level = belay_log_info
    if (present(least)) level = int(least, c_int)
    if (present(sink)) then
      former => the_holder%sink
      the_holder%sink => sink
      code = c_set_log(c_funloc(call_sink), c_loc(the_holder), level)
      if (code /= belay_ok) the_holder%sink => former
      call finish(code, ierr)
    else
      call finish(c_set_log(c_null_funptr, c_null_ptr, level), ierr)
    end if
  end subroutine

  subroutine call_sink(context, level, message) &
      bind(C, name="belay_fortran_call_sink")
    type(c_ptr), value :: context
    integer(c_int), value :: level
    type(c_ptr), value :: message
    type(sink_holder), pointer :: holder
    call c_f_pointer(context, holder)
    call holder%sink(int(level), to_fortran(message))
  end subroutine

end module belay_log
