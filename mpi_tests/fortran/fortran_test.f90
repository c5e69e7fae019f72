! Runs the tests of the Fortran module on all ranks.
!
! usage: fortran_test DIR

program fortran_test
  use mpi_f08
  use belay
  use expect
  use test_addresses
  use test_comms
  use test_refused
  use test_rows
  use test_runs
  use test_sharding
  use test_values
  implicit none
  type(belay_comm) :: comm, half
  type(MPI_Comm) :: some
  character(len=4096) :: argument
  character(len=:), allocatable :: dir
  integer :: rank, ranks, failures
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  call get_command_argument(1, argument)
  dir = trim(argument)

  call belay_comm_create(MPI_COMM_WORLD, comm)
  call test_types(comm, dir)
  call test_from_rank0(comm, dir, rank)
  call test_ranks(comm, dir, rank, ranks, .true.)
  call test_kinds(comm, dir, rank, ranks, .true.)
  call test_sections(comm, dir, rank, ranks)
  call test_strings(comm, dir)
  call test_moved(comm, dir, rank, ranks)
  call test_wrong_addresses()
  call test_errors(comm, dir, rank, ranks)
  call test_saver(comm, dir)
  call test_manager(comm, dir)
  call test_run(dir, rank)
  call test_reader(dir)

  call test_particles(comm, dir, rank, ranks)
  call test_cells(comm, dir, rank, ranks)
  call test_apart(comm, dir)
  call test_objects(comm, dir)
  call test_wrong_rows()
  call test_ghosts(comm, dir, rank, ranks)
  call test_layouts(comm, dir, rank, ranks)
  call test_meshes(comm, dir, rank, ranks)
  call test_policies(comm, dir, rank, ranks)
  call test_log(comm, dir, rank)

  call test_module_mpi(dir)
  call test_mpif_h(dir)

  ! Another number of ranks.
  call MPI_Comm_split(MPI_COMM_WORLD, merge(0, 1, rank < 2), rank, some)
  call belay_comm_create(some, half)
  if (rank < 2) then
    call test_ranks(half, dir, rank, min(ranks, 2), .false.)
    call test_kinds(half, dir, rank, min(ranks, 2), .false.)
    call test_others(half, dir, ranks**2, rank, min(ranks, 2))
  end if
  call belay_comm_free(half)
  call MPI_Comm_free(some)
  call belay_comm_free(comm)

  failures = count_failures()
  if (rank == 0) print "(i0,a,i0,a)", ranks, " ranks, ", failures, " failures"
  call MPI_Finalize()
  if (failures > 0) stop 1
end program fortran_test
