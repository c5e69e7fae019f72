! Reading a step without MPI.

module belay_readers
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: int32, int64
  use belay_base
  use belay_c
  implicit none
  private

  type, public, bind(C) :: belay_reader
    type(c_ptr) :: handle = c_null_ptr
  end type

  ! Element types of stored arrays.
  integer, parameter, public :: &
      belay_f16 = 1, belay_bf16 = 2, belay_f32 = 3, belay_f64 = 4, &
      belay_f8e4m3 = 5, belay_f8e5m2 = 6, belay_i8 = 7, belay_i16 = 8, &
      belay_i32 = 9, belay_i64 = 10, belay_u8 = 11, belay_u16 = 12, &
      belay_u32 = 13, belay_u64 = 14, belay_bool = 15, belay_c64 = 16, &
      belay_c128 = 17, belay_string = 18

  public :: belay_reader_open, belay_reader_close, belay_reader_step
  public :: belay_reader_time
  public :: belay_reader_num_arrays, belay_reader_key, belay_reader_describe
  public :: belay_reader_read, belay_verify

  ! Reads the box of an array that has the shape of `value` and begins at the
  ! index `start`, which counts from 1; without `start`, at the first element.
  ! Local. `value` must have the stored type. A scalar of type character gets a
  ! string, truncated or padded with blanks to its length.
  interface belay_reader_read
    module procedure read_first, read_int32, read_int64
  end interface

  abstract interface
    ! Receives the number of bytes done and the total number of bytes.
    subroutine verify_progress(done, total)
      import :: int64
      integer(int64), intent(in) :: done, total
    end subroutine
  end interface

  interface
    subroutine c_read(reader, key, value, start, ierr) &
        bind(C, name="belay_fortran_read")
      import
      type(belay_reader), intent(in) :: reader
      character(len=*, kind=c_char), intent(in) :: key
      type(*), dimension(..), intent(inout), target :: value
      integer(c_int64_t), intent(in), optional :: start(:)
      integer(c_int), intent(out), optional :: ierr
    end subroutine

    integer(c_int) function c_verify(path, progress, context) &
        bind(C, name="belay_verify")
      import
      character(kind=c_char), intent(in) :: path(*)
      type(c_funptr), value :: progress
      type(c_ptr), value :: context
    end function
  end interface

  type :: progress_holder
    procedure(verify_progress), pointer, nopass :: progress => null()
  end type

contains

  ! Opens a step, or the newest step of a directory of steps. Local.
  subroutine belay_reader_open(path, reader, ierr)
    character(len=*), intent(in) :: path
    type(belay_reader), intent(out) :: reader
    integer, intent(out), optional :: ierr
    call finish(c_reader_open(to_c(path), reader%handle), ierr)
  end subroutine

  ! Local.
  subroutine belay_reader_close(reader)
    type(belay_reader), intent(inout) :: reader
    call c_reader_close(reader%handle)
  end subroutine

  ! Returns the number of the step. Local.
  subroutine belay_reader_step(reader, step, ierr)
    type(belay_reader), intent(in) :: reader
    integer(int64), intent(out) :: step
    integer, intent(out), optional :: ierr
    step = belay_no_step
    call finish(c_reader_step(reader%handle, step), ierr)
  end subroutine

  ! Returns when the save began, in seconds since 1970 (UTC). Local.
  subroutine belay_reader_time(reader, seconds, ierr)
    type(belay_reader), intent(in) :: reader
    integer(int64), intent(out) :: seconds
    integer, intent(out), optional :: ierr
    seconds = 0
    call finish(c_reader_time(reader%handle, seconds), ierr)
  end subroutine

  ! Returns the number of arrays. Local.
  subroutine belay_reader_num_arrays(reader, count, ierr)
    type(belay_reader), intent(in) :: reader
    integer(int64), intent(out) :: count
    integer, intent(out), optional :: ierr
    count = 0
    call finish(c_reader_num_arrays(reader%handle, count), ierr)
  end subroutine

  ! Returns the key of the array with this index, which counts from 1. Local.
  subroutine belay_reader_key(reader, index, key, ierr)
    type(belay_reader), intent(in) :: reader
    integer(int64), intent(in) :: index
    character(len=:), allocatable, intent(out) :: key
    integer, intent(out), optional :: ierr
    type(c_ptr) :: text
    integer(c_int) :: code
    text = c_null_ptr
    code = c_reader_key(reader%handle, index - 1, text)
    key = ""
    if (code == belay_ok) key = to_fortran(text)
    call finish(code, ierr)
  end subroutine

  ! Returns the element type of an array, and its shape as Fortran sees it.
  ! Local.
  subroutine belay_reader_describe(reader, key, dtype, shape, ierr)
    type(belay_reader), intent(in) :: reader
    character(len=*), intent(in) :: key
    integer, intent(out) :: dtype
    integer(int64), allocatable, intent(out) :: shape(:)
    integer, intent(out), optional :: ierr
    integer(c_int), parameter :: most = 32
    integer(c_int64_t) :: lengths(most)
    integer(c_int) :: code, ndim
    dtype = 0
    ndim = 0
    code = c_reader_describe(reader%handle, to_c(key), dtype, ndim, most, &
        lengths)
    shape = lengths(ndim:1:-1)
    call finish(code, ierr)
  end subroutine

  subroutine read_first(reader, key, value, ierr)
    type(belay_reader), intent(in) :: reader
    character(len=*), intent(in) :: key
    type(*), dimension(..), intent(inout), target :: value
    integer, intent(out), optional :: ierr
    call c_read(reader, key, value, ierr=ierr)
  end subroutine

  subroutine read_int64(reader, key, value, start, ierr)
    type(belay_reader), intent(in) :: reader
    character(len=*), intent(in) :: key
    type(*), dimension(..), intent(inout), target :: value
    integer(int64), intent(in) :: start(:)
    integer, intent(out), optional :: ierr
    call c_read(reader, key, value, start, ierr=ierr)
  end subroutine

  subroutine read_int32(reader, key, value, start, ierr)
    type(belay_reader), intent(in) :: reader
    character(len=*), intent(in) :: key
    type(*), dimension(..), intent(inout), target :: value
    integer(int32), intent(in) :: start(:)
    integer, intent(out), optional :: ierr
    call c_read(reader, key, value, int(start, int64), ierr=ierr)
  end subroutine

  ! Reads every byte of a step, or of the newest step of a directory of steps,
  ! and compares it with its checksum. Local. Calls `progress(done, total)`, if
  ! it is given, with numbers of bytes. If blocks or files are damaged, returns
  ! belay_data_loss; the error text has a line for each.
  subroutine belay_verify(path, progress, ierr)
    character(len=*), intent(in) :: path
    procedure(verify_progress), optional :: progress
    integer, intent(out), optional :: ierr
    type(progress_holder), target :: holder
    if (present(progress)) then
      holder%progress => progress
      call finish(c_verify(to_c(path), c_funloc(call_progress), &
          c_loc(holder)), ierr)
    else
      call finish(c_verify(to_c(path), c_null_funptr, c_null_ptr), ierr)
    end if
  end subroutine

  subroutine call_progress(context, done, total) &
      bind(C, name="belay_fortran_call_progress")
    type(c_ptr), value :: context
    integer(c_int64_t), value :: done, total
    type(progress_holder), pointer :: holder
    call c_f_pointer(context, holder)
    call holder%progress(done, total)
  end subroutine

end module belay_readers
