! Heat on a plate in Fortran; restartable on any number of ranks.
!
!   mpirun -n 4 ./fortran_heat run 200     # saves every 50 steps
!   mpirun -n 3 ./fortran_heat run 400     # goes on from step 200
!
! Each rank owns some columns u(:, first:last) of the plate, in memory with one
! ghost cell on each side. h5py shows the plate transposed, so partitioned by
! rows. The field is the same to the last bit, however often the run was stopped
! and on however many ranks it continued.
!
! With a third argument, the job kills itself in that step, without a message.

program heat
  use, intrinsic :: iso_c_binding, only: c_int
  use, intrinsic :: iso_fortran_env, only: int64, real64, error_unit
  use mpi_f08
  use belay
  implicit none

  interface
    integer(c_int) function raise(signal) bind(C)
      import
      integer(c_int), value :: signal
    end function
  end interface

  integer, parameter :: rows = 64, columns = 96
  real(real64), allocatable, target :: u(:, :)
  real(real64), allocatable :: next(:, :)
  integer(int64), target :: step
  integer(int64) :: restored, steps, die_at
  integer :: rank, ranks, first, last
  character(len=4096) :: dir
  type(belay_run) :: run

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  call read_arguments()
  first = columns*rank/ranks + 1
  last = columns*(rank + 1)/ranks
  allocate (u(0:rows + 1, first - 1:last + 1), source=0.0_real64)
  allocate (next, source=u)

  ! Names the values of the program. What is owned is a section of u.
  call belay_run_open(MPI_COMM_WORLD, trim(dir), run, &
      "save_interval_steps=50 save_first_step=false max_to_keep=2")
  call belay_add_piece(run%state, "temperature", u(1:rows, first:last), &
      global_shape=[rows, columns], start=[1, first])
  call belay_add(run%state, "step", step)

  ! Continues from the newest step, if there is one.
  call belay_run_restore(run, restored)
  if (restored == belay_no_step) then
    step = 0
    call start()
  else if (rank == 0) then
    print "(a,i0,a,i0,a)", "going on from step ", step, " on ", ranks, " ranks"
  end if
  call exchange()

  do while (step < steps)
    if (step == die_at .and. rank == ranks - 1) then
      if (raise(9_c_int) /= 0) error stop
    end if
    call advance()
    call exchange()
    call belay_run_step(run, step)
  end do
  call report()

  call belay_run_close(run)
  call MPI_Finalize()

contains

  subroutine read_arguments()
    character(len=32) :: number
    if (command_argument_count() < 2) then
      write (error_unit, "(a)") "usage: fortran_heat DIR STEPS [DIE_AT]"
      call MPI_Abort(MPI_COMM_WORLD, 2)
    end if
    call get_command_argument(1, dir)
    call get_command_argument(2, number)
    read (number, *) steps
    die_at = -1
    if (command_argument_count() < 3) return
    call get_command_argument(3, number)
    read (number, *) die_at
  end subroutine

  ! Starts with a hot spot away from the edges, which stay cold.
  subroutine start()
    integer :: i, j
    do j = first, last
      do i = 1, rows
        u(i, j) = merge(1000.0_real64, 0.0_real64, &
            (j - 1)/8 == 3 .and. (i - 1)/8 == 5)
      end do
    end do
  end subroutine

  ! Sends the first and the last column to the neighboring ranks.
  subroutine exchange()
    integer :: before, after
    before = merge(rank - 1, MPI_PROC_NULL, rank > 0)
    after = merge(rank + 1, MPI_PROC_NULL, rank + 1 < ranks)
    call MPI_Sendrecv(u(1, first), rows, MPI_REAL8, before, 0, &
        u(1, last + 1), rows, MPI_REAL8, after, 0, MPI_COMM_WORLD, &
        MPI_STATUS_IGNORE)
    call MPI_Sendrecv(u(1, last), rows, MPI_REAL8, after, 1, &
        u(1, first - 1), rows, MPI_REAL8, before, 1, MPI_COMM_WORLD, &
        MPI_STATUS_IGNORE)
  end subroutine

  ! Does one step. The memory of u must not move: the state refers to it.
  subroutine advance()
    integer :: i, j
    real(real64) :: around
    do j = first, last
      do i = 1, rows
        around = ((u(i, j - 1) + u(i, j + 1)) + u(i - 1, j)) + u(i + 1, j)
        next(i, j) = u(i, j) + 0.2_real64*(around - 4*u(i, j))
      end do
    end do
    u(1:rows, first:last) = next(1:rows, first:last)
    step = step + 1
  end subroutine

  ! Prints a number that changes if any bit of the field differs.
  subroutine report()
    integer(int64) :: digest
    integer :: i, j
    digest = 0
    do j = first, last
      do i = 1, rows
        digest = ieor(digest, ishftc(transfer(u(i, j), digest), &
            mod((j - 1)*rows + i - 1, 64)))
      end do
    end do
    call MPI_Allreduce(MPI_IN_PLACE, digest, 1, MPI_INTEGER8, MPI_BXOR, &
        MPI_COMM_WORLD)
    if (rank == 0) print "(a,i0,a,z16.16)", "step ", step, ": field ", digest
  end subroutine

end program heat
