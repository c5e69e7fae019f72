! Several boxes of one array on each rank: a fused projection, gate and up, of a
! model with tensor parallelism, and experts that are dealt out in turn. Another
! number of ranks has other boxes. The values are those of c/fused/fused.c, whose
! axes have the other order.
!
! usage: fused DIR save|restore

program fused
  use, intrinsic :: iso_fortran_env, only: int32, int64, real32, real64
  use mpi_f08
  use belay
  implicit none
  integer, parameter :: features = 13, width = 5, experts = 12, kinds = 3
  real(real64), allocatable, target :: weight(:, :, :)   ! width, own, halves
  real(real32), allocatable, target :: gate(:), up(:), later(:)
  integer(int32), target :: expert(kinds, experts)
  type(belay_comm) :: comm
  character(len=4096) :: dir, what
  integer :: rank, ranks, first, last, wrong, all_wrong

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  call get_command_argument(1, dir)
  call get_command_argument(2, what)
  first = features*rank/ranks + 1
  last = features*(rank + 1)/ranks
  allocate (weight(width, first:last, 2), gate(first:last), up(first:last), &
      later(first:last))
  weight = 0; gate = 0; up = 0; later = 0; expert = 0
  wrong = 0
  call belay_comm_create(MPI_COMM_WORLD, comm)
  if (what == "save") then
    call save()
  else
    call restore()
  end if
  call MPI_Allreduce(wrong, all_wrong, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
  if (rank == 0) print "(2a,i0,a,i0,a)", trim(what), " in Fortran on ", ranks, &
      " ranks: ", all_wrong, " wrong"
  call belay_comm_free(comm)
  call MPI_Finalize()
  if (all_wrong > 0) stop 1

contains

  ! Each call with the same key adds a box.
  subroutine describe(state, halves)
    type(belay_state), intent(out) :: state
    integer, intent(in) :: halves
    integer :: i
    call belay_state_create(state)
    do i = 1, halves
      call belay_add_piece(state, "fc1/weight", weight(:, :, i), &
          [width, 2*features], [1, (i - 1)*features + first])
    end do
    call belay_add_piece(state, "fc1/bias", gate, [2*features], [first])
    if (halves == 2) call belay_add_piece(state, "fc1/bias", up, &
        [2*features], [features + first])
    do i = 1 + rank, experts, ranks
      call belay_add_piece(state, "experts", expert(:, i:i), &
          [kinds, experts], [1, i])
    end do
  end subroutine

  ! Sets the values of a step, or counts those that are others.
  subroutine visit(step, fills)
    integer, intent(in) :: step
    logical, intent(in) :: fills
    integer :: half, i, j, row
    do half = 1, 2
      do i = first, last
        row = (half - 1)*features + i - 1
        do j = 1, width
          if (fills) weight(j, i, half) = 10000*step + 100*row + j - 1
          if (weight(j, i, half) /= 10000*step + 100*row + j - 1) wrong = wrong + 1
        end do
      end do
    end do
    do i = first, last
      if (fills) gate(i) = 100*step + i - 1
      if (fills) up(i) = 100*step + features + i - 1
      if (gate(i) /= 100*step + i - 1) wrong = wrong + 1
      if (up(i) /= 100*step + features + i - 1) wrong = wrong + 1
    end do
    do i = 1 + rank, experts, ranks
      do j = 1, kinds
        if (fills) expert(j, i) = 1000*step + 10*(i - 1) + j - 1
        if (expert(j, i) /= 1000*step + 10*(i - 1) + j - 1) wrong = wrong + 1
      end do
    end do
  end subroutine

  ! Step 1 in the foreground, step 2 in the background. A rank that forgets its
  ! boxes of up is an error on all ranks.
  subroutine save()
    type(belay_state) :: forgets, state
    type(belay_saver) :: saver
    integer :: code
    call describe(forgets, merge(1, 2, rank == 1))
    call belay_save(comm, trim(dir), 0_int64, forgets, ierr=code)
    if (code /= belay_invalid_argument) wrong = wrong + 1
    if (index(belay_error_message(), "fc1/") == 0) wrong = wrong + 1
    call describe(state, 2)
    call visit(1, .true.)
    call belay_save(comm, trim(dir), 1_int64, state)
    call visit(2, .true.)
    call belay_saver_create(comm, saver)
    call belay_saver_save(saver, trim(dir), 2_int64, state)
    call visit(3, .true.)
    call belay_saver_close(saver)
    call belay_state_free(forgets)
    call belay_state_free(state)
  end subroutine

  ! The second box of a key may have moved, too.
  subroutine restore()
    type(belay_state) :: state
    real(real32), allocatable :: before(:)
    call describe(state, 2)
    call belay_restore(comm, trim(dir), state, step=2_int64)
    call visit(2, .false.)
    call move_alloc(up, before)
    call move_alloc(later, up)
    call belay_set_address(state, "fc1/bias", up, piece=2)
    call belay_restore(comm, trim(dir), state, step=1_int64)
    call visit(1, .false.)
    call belay_state_free(state)
  end subroutine

end program fused
