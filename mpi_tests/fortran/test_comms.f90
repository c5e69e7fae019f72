! Communicators as the module mpi and mpif.h have them.

module test_comms
  use, intrinsic :: iso_fortran_env, only: int64
  implicit none
  private
  public :: test_module_mpi, test_mpif_h

contains

  ! Saves and restores on the ranks of an integer communicator.
  subroutine round_trip(mpi_comm, dir)
    use belay
    use expect
    integer, intent(in) :: mpi_comm
    character(len=*), intent(in) :: dir
    type(belay_comm) :: comm
    type(belay_state) :: state
    integer, target :: n
    integer :: ierr
    type(belay_options) :: options
    call belay_options_create(options)
    call belay_options_set(options, "deadline_seconds", 60)
    call belay_comm_create(mpi_comm, comm, options)
    call belay_options_free(options)
    call belay_state_create(state)
    call belay_add(state, "n", n)
    n = 7
    call belay_save(comm, dir, 1_int64, state)
    n = 0
    call belay_restore(comm, dir, state)
    call expect_true("an integer communicator", n == 7)
    call belay_state_free(state)
    call belay_comm_free(comm, ierr)
    call expect_code("freeing it", belay_ok, ierr)
  end subroutine

  subroutine test_module_mpi(dir)
    use mpi
    character(len=*), intent(in) :: dir
    call round_trip(MPI_COMM_WORLD, dir//"/module_mpi")
  end subroutine

  subroutine test_mpif_h(dir)
    include "mpif.h"
    character(len=*), intent(in) :: dir
    call round_trip(MPI_COMM_WORLD, dir//"/mpif_h")
  end subroutine

end module test_comms
