! The last rank does not create the communicator, which has a deadline of a
! second. Judged from outside: the job ends with the line of the deadline.

program deadline
  use, intrinsic :: iso_c_binding, only: c_int
  use mpi_f08
  use belay
  implicit none
  interface
    integer(c_int) function c_pause() bind(C, name="pause")
      import
    end function
  end interface
  type(belay_comm) :: comm
  type(belay_options) :: options
  integer :: rank, ranks, ierr
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  call belay_options_create(options)
  call belay_options_set(options, "deadline_seconds", 1)
  if (rank == ranks - 1) ierr = c_pause()
  call belay_comm_create(MPI_COMM_WORLD, comm, options, ierr)
  error stop "the call went on"
end program deadline
