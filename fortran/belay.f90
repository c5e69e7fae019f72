! Checkpoints of programs in Fortran. docs/fortran.md explains it.
!
!   use belay
!   type(belay_comm) :: comm
!   type(belay_state) :: state
!   call belay_comm_create(MPI_COMM_WORLD, comm)
!   call belay_state_create(state)
!   call belay_add_piece(state, "u", u(1:nx, 1:rows), global_shape=[nx, ny], &
!       start=[1, first_row])
!   call belay_save(comm, "run", step, state)
!
! Every subroutine that can fail has an optional last argument ierr. Without it,
! an error is printed and ends all ranks of the job.

module belay
  use belay_base, except_finish => finish, except_handle => handle_of
  use belay_states
  use belay_rows
  use belay_layouts
  use belay_log
  use belay_runs
  use belay_sharding
  use belay_readers
  implicit none
  private :: except_finish, except_handle
end module belay
