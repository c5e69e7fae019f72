! A Fortran program that does not take the code of an error ends with its text.

program fortran_check
  use, intrinsic :: iso_fortran_env, only: int64
  use mpi_f08
  use belay
  implicit none
  type(belay_comm) :: comm
  type(belay_state) :: state
  call MPI_Init()
  call belay_comm_create(MPI_COMM_WORLD, comm)
  call belay_state_create(state)
  call belay_restore(comm, "no_such_run", state, step=1_int64)
  call MPI_Finalize()
end program fortran_check
