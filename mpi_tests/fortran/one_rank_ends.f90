! one_rank_ends DIR CASE: one rank stops, while the others are in a save.

program one_rank_ends
  use, intrinsic :: iso_fortran_env, only: error_unit, int64
  use mpi_f08
  use belay
  implicit none
  type(belay_comm) :: comm
  type(belay_state) :: state
  character(len=200) :: dir, name
  integer :: rank
  call get_command_argument(1, dir)
  call get_command_argument(2, name)
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call belay_comm_create(MPI_COMM_WORLD, comm)
  call belay_state_create(state)
  if (rank == 1) then
    if (name == "error_stop") error stop "the mesh is inside out"
    write (error_unit, "(a)") "the mesh is inside out"
    if (name == "finalize_stop") call MPI_Finalize()
    stop 1
  end if
  call belay_save(comm, trim(dir), 1_int64, state)
  write (error_unit, "(a)") "the save went on"
  call MPI_Finalize()
end program one_rank_ends
