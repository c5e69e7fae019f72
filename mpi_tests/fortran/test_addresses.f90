! Arrays that lie elsewhere than when they were added.

module test_addresses
  use, intrinsic :: iso_fortran_env
  use belay
  use expect
  implicit none
  private
  public :: test_moved, test_wrong_addresses

contains

  ! A program of two time levels: allocatable arrays that change places with
  ! move_alloc, pointers that change places, and a string.
  subroutine test_moved(comm, dir, rank, size)
    type(belay_comm), intent(in) :: comm
    character(len=*), intent(in) :: dir
    integer, intent(in) :: rank, size
    real(real64), allocatable, target :: u(:, :), next(:, :), third(:, :)
    real(real64), target :: memory(4, 2, 2)
    real(real64), pointer :: p(:, :), q(:, :), other(:, :)
    type(belay_state) :: state
    integer :: step
    allocate (u(3, 2), next(3, 2))
    p => memory(:, :, 1); q => memory(:, :, 2)
    call belay_state_create(state)
    call belay_add_piece(state, "u", u, [3, 2*size], [1, 2*rank + 1])
    call belay_add_piece_with_ghosts(state, "p", p, [2, 2*size], &
        [1, 2*rank + 1], [1, 0])
    do step = 1, 4
      call fill(next, 6, 100*step + 10*rank)
      call fill(q, 8, 1000*step + 10*rank)
      call move_alloc(u, third)
      call move_alloc(next, u)
      call move_alloc(third, next)
      other => p; p => q; q => other
      call belay_set_address(state, "u", u)
      call belay_set_address(state, "p", p, piece=1)
      call belay_save(comm, dir//"/moved", int(step, int64), state)
    end do
    do step = 4, 1, -1
      deallocate (u)                     ! the same shape, anywhere
      allocate (u(3, 2), source=-1d0)
      other => p; p => q; q => other
      call belay_set_address(state, "u", u)
      call belay_set_address(state, "p", p)
      call belay_restore(comm, dir//"/moved", state, step=int(step, int64))
      call expect_true("moved arrays", &
          count_wrong(u, 6, 100*step + 10*rank) == 0)
      call expect_true("moved pointers", all(p(2:3, 1) == &
          1000*step + 10*rank + [1, 2]) .and. all(p(2:3, 2) == &
          1000*step + 10*rank + [5, 6]))
    end do
    call belay_state_free(state)
  end subroutine

  ! What is not as it was cannot be put in its place.
  subroutine test_wrong_addresses()
    real(real64), allocatable, target :: u(:, :), wide(:, :)
    real(real32), target :: narrow(3, 2)
    character(len=8), target :: name, other
    character(len=9), target :: longer
    integer, target :: n
    allocate (u(3, 2), wide(4, 2))
    n = 0
    call belay_expect(u, "another shape than was added (need (3, 2), found (3, 3))", 1)
    call belay_expect(u, "another dtype than was added (need f64, found f32)", 2)
    call belay_expect(u, "(need (1, 3), found (1, 4))", 3)
    call belay_expect(u, "no such piece (need 0 to 0, found 1)", 4)
    call belay_expect(u, "no such key", 5)
    call belay_expect(u, "need a string of 8 bytes, found (9)", 6)
    call belay_expect(u, """rows"": it has rows", 7)
    call belay_expect(u, "", 8)

  contains

    subroutine belay_expect(added, message, what)
      real(real64), intent(inout), target :: added(:, :)
      character(len=*), intent(in) :: message
      integer, intent(in) :: what
      real(real64), allocatable, target :: larger(:, :)
      type(belay_state) :: state
      integer :: code
      allocate (larger(3, 3))
      call belay_state_create(state)
      call belay_add(state, "u", added)
      call belay_add(state, "name", name)
      call belay_add_rows(state, "rows", narrow, count=n)
      select case (what)
      case (1)
        call belay_set_address(state, "u", larger, ierr=code)
      case (2)
        call belay_set_address(state, "u", narrow, ierr=code)
      case (3)
        call belay_set_address(state, "u", wide(1:3, :), ierr=code)
      case (4)
        call belay_set_address(state, "u", added, piece=2, ierr=code)
      case (5)
        call belay_set_address(state, "none", added, ierr=code)
      case (6)
        call belay_set_address(state, "name", longer, ierr=code)
      case (7)
        call belay_set_address(state, "rows", narrow, ierr=code)
      case default
        call belay_set_address(state, "name", other, ierr=code)
      end select
      call expect_true("a refused address: "//message, &
          (code /= belay_ok) .eqv. len(message) > 0)
      if (len(message) > 0) call expect_message(message)
      call belay_state_free(state)
    end subroutine
  end subroutine

end module test_addresses
