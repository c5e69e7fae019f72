! What the tests of the Fortran module share.

module expect
  use, intrinsic :: iso_fortran_env, only: int64, real64, error_unit
  use mpi_f08
  use belay
  implicit none
  private
  public :: expect_true, expect_code, expect_message, count_failures
  public :: fill, count_wrong, part

  integer :: failures = 0

contains

  ! Notes a failure of this rank unless `is_true`.
  subroutine expect_true(what, is_true)
    character(len=*), intent(in) :: what
    logical, intent(in) :: is_true
    integer :: rank
    if (is_true) return
    call MPI_Comm_rank(MPI_COMM_WORLD, rank)
    failures = failures + 1
    write (error_unit, "(a,i0,2a)") "rank ", rank, ": not so: ", what
  end subroutine

  ! Notes a failure unless a call has returned this code.
  subroutine expect_code(what, needed, found)
    character(len=*), intent(in) :: what
    integer, intent(in) :: needed, found
    call expect_true(what//": need "//belay_code_name(needed)//", found "// &
        belay_code_name(found)//": "//belay_error_message(), needed == found)
  end subroutine

  ! Notes a failure unless the last error contains the text.
  subroutine expect_message(text)
    character(len=*), intent(in) :: text
    call expect_true("a message with """//text//""" in """// &
        belay_error_message()//"""", index(belay_error_message(), text) > 0)
  end subroutine

  ! Returns the failures of all ranks. Collective.
  integer function count_failures()
    call MPI_Allreduce(failures, count_failures, 1, MPI_INTEGER, MPI_SUM, &
        MPI_COMM_WORLD)
  end function

  ! Numbers the elements, from `first` on.
  subroutine fill(elements, length, first)
    integer, intent(in) :: length, first
    real(real64), intent(out) :: elements(length)
    integer :: i
    elements = [(real(first + i, real64), i=0, length - 1)]
  end subroutine

  ! Returns how many elements have another number.
  integer function count_wrong(elements, length, first)
    integer, intent(in) :: length, first
    real(real64), intent(in) :: elements(length)
    integer :: i
    count_wrong = count(elements /= [(real(first + i, real64), i=0, length - 1)])
  end function

  ! Gives a rank its part of 1 to `length`.
  subroutine part(length, rank, size, first, last)
    integer, intent(in) :: length, rank, size
    integer, intent(out) :: first, last
    first = length*rank/size + 1
    last = length*(rank + 1)/size
  end subroutine

end module expect
