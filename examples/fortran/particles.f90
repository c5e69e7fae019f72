! Particles in Fortran that move between ranks; restartable on any number of
! ranks.
!
!   mpirun -n 4 ./fortran_particles run 200     # saves every 50 steps
!   mpirun -n 3 ./fortran_particles run 400     # continues from step 200
!
! Each rank has the particles in its slab of a periodic box, and their number
! changes in each step. They are rows of three arrays with one count. On a
! different number of ranks, each rank gets an even part of the particles and
! sends them to their slabs. The particles are the same to the last bit, however
! often the run was stopped and on however many ranks it continued.
!
! With a third argument, the job kills itself in that step, without a message.

program particles
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

  integer, parameter :: total = 3000, save_every = 50
  integer, target :: n                     ! particles of this rank
  integer(int64), target :: id(total)
  real(real64), target :: x(3, total), v(3, total)
  integer(int64), target :: step
  integer(int64) :: restored, steps, die_at
  integer :: rank, ranks
  character(len=4096) :: dir
  type(belay_comm) :: comm
  type(belay_state) :: state

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  call read_arguments()

  ! Rows at the same index of several arrays stay together. The arrays have room
  ! for all particles; otherwise belay_count_rows would return how many to
  ! expect.
  n = 0
  call belay_comm_create(MPI_COMM_WORLD, comm)
  call belay_state_create(state)
  call belay_add_rows(state, "particles/id", id, count=n)
  call belay_add_rows(state, "particles/x", x, count=n)
  call belay_add_rows(state, "particles/v", v, count=n)
  call belay_add(state, "step", step)

  call belay_restore_latest(comm, trim(dir), state, restored)
  if (restored == belay_no_step) then
    call start()
  else if (rank == 0) then
    print "(a,i0,a,i0,a)", "going on from step ", step, " on ", ranks, " ranks"
  end if
  call migrate()

  do while (step < steps)
    if (step == die_at .and. rank == ranks - 1) then
      if (raise(9_c_int) /= 0) error stop
    end if
    call advance()
    call migrate()
    if (mod(step, int(save_every, int64)) == 0) then
      call belay_save(comm, trim(dir), step, state)
    end if
  end do
  call report()

  call belay_state_free(state)
  call belay_comm_free(comm)
  call MPI_Finalize()

contains

  subroutine read_arguments()
    character(len=32) :: number
    if (command_argument_count() < 2) then
      write (error_unit, "(a)") "usage: fortran_particles DIR STEPS [DIE_AT]"
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

  ! Puts all particles on rank 0, at positions computed from their ids.
  subroutine start()
    integer :: i
    step = 0
    n = 0
    if (rank > 0) return
    n = total
    do i = 1, total
      id(i) = i
      x(:, i) = [modulo(0.618_real64*i, 1.0_real64), &
          modulo(0.414_real64*i, 1.0_real64), modulo(0.732_real64*i, 1.0_real64)]
      v(:, i) = 0.01_real64*(x([2, 3, 1], i) - 0.5_real64)
    end do
  end subroutine

  ! Moves the particles, which rotate around the middle of the box.
  subroutine advance()
    integer :: i
    do i = 1, n
      v(1, i) = v(1, i) - 0.001_real64*(x(2, i) - 0.5_real64)
      v(2, i) = v(2, i) + 0.001_real64*(x(1, i) - 0.5_real64)
      x(:, i) = modulo(x(:, i) + v(:, i), 1.0_real64)
    end do
    step = step + 1
  end subroutine

  pure integer function owner(i)
    integer, intent(in) :: i
    owner = min(int(x(1, i)*ranks), ranks - 1)
  end function

  ! Sends each particle to the rank that owns its slab.
  subroutine migrate()
    integer, dimension(0:ranks - 1) :: counts, starts, from_counts, from_starts
    real(real64), allocatable :: sent(:, :), received(:, :)
    integer :: i, r, place
    allocate (sent(7, n))
    place = 0
    do r = 0, ranks - 1
      starts(r) = 7*place
      do i = 1, n
        if (owner(i) /= r) cycle
        place = place + 1
        sent(:, place) = [real(id(i), real64), x(:, i), v(:, i)]
      end do
      counts(r) = 7*place - starts(r)
    end do
    call MPI_Alltoall(counts, 1, MPI_INTEGER, from_counts, 1, MPI_INTEGER, &
        MPI_COMM_WORLD)
    from_starts(0) = 0
    do r = 1, ranks - 1
      from_starts(r) = from_starts(r - 1) + from_counts(r - 1)
    end do
    n = sum(from_counts)/7
    allocate (received(7, n))
    call MPI_Alltoallv(sent, counts, starts, MPI_REAL8, received, from_counts, &
        from_starts, MPI_REAL8, MPI_COMM_WORLD)
    id(:n) = nint(received(1, :), int64)
    x(:, :n) = received(2:4, :)
    v(:, :n) = received(5:7, :)
  end subroutine

  ! Prints a number that changes if any bit of any particle differs.
  subroutine report()
    integer(int64) :: digest
    integer :: i, k
    digest = 0
    do i = 1, n
      do k = 1, 3
        digest = ieor(digest, ishftc(transfer(x(k, i), digest), &
            int(mod(6*id(i) + 2*k, 64_int64))))
        digest = ieor(digest, ishftc(transfer(v(k, i), digest), &
            int(mod(6*id(i) + 2*k + 1, 64_int64))))
      end do
    end do
    call MPI_Allreduce(MPI_IN_PLACE, digest, 1, MPI_INTEGER8, MPI_BXOR, &
        MPI_COMM_WORLD)
    if (rank == 0) print "(a,i0,a,z16.16)", "step ", step, ": particles ", digest
  end subroutine

end program particles
