! Sharding policies.

module test_sharding
  use, intrinsic :: iso_fortran_env
  use belay
  use expect
  implicit none
  private
  public :: test_policies

  integer :: calls = 0

contains

  ! Each column of "u" apart, all else in the first group.
  subroutine group_columns(pieces, grouping, ierr)
    type(belay_shardable_tensor), intent(in) :: pieces(:)
    type(belay_grouping), intent(in) :: grouping
    integer, intent(inout) :: ierr
    integer :: i, column
    calls = calls + 1
    do i = 1, size(pieces)
      call expect_true("a device", index(pieces(i)%device, "/task:") > 0)
      call expect_true("a node", pieces(i)%node == 0)
      if (pieces(i)%key /= "u") then
        call belay_grouping_add(grouping, 1, i, ierr)
        cycle
      end if
      call expect_true("a dtype", pieces(i)%dtype == belay_f64)
      call expect_true("a shape", all(pieces(i)%shape == [3, 2]))
      call expect_true("a start", pieces(i)%start(1) == 1 .and. &
          mod(pieces(i)%start(2), 2_int64) == 1)
      call expect_true("bytes", pieces(i)%bytes == 48)
      do column = 1, 2
        call belay_grouping_add(grouping, column, i, &
            pieces(i)%start + [0, column - 1], [3_int64, 1_int64], ierr)
        call expect_code("a column", belay_ok, ierr)
      end do
    end do
  end subroutine

  ! Names a piece that is not there.
  subroutine group_nothing(pieces, grouping, ierr)
    type(belay_shardable_tensor), intent(in) :: pieces(:)
    type(belay_grouping), intent(in) :: grouping
    integer, intent(inout) :: ierr
    call belay_grouping_add(grouping, 1, size(pieces) + 1, ierr)
  end subroutine

  ! Leaves out an axis.
  subroutine group_lines(pieces, grouping, ierr)
    type(belay_shardable_tensor), intent(in) :: pieces(:)
    type(belay_grouping), intent(in) :: grouping
    integer, intent(inout) :: ierr
    integer :: i
    do i = 1, size(pieces)
      call belay_grouping_add(grouping, 1, i, [1], [3], ierr)
    end do
  end subroutine

  subroutine test_policies(comm, dir, rank, ranks)
    type(belay_comm), intent(in) :: comm
    character(len=*), intent(in) :: dir
    integer, intent(in) :: rank, ranks
    real(real64), target :: u(3, 2)
    real(real64) :: w(3, 2)
    integer, target :: number
    type(belay_state) :: state
    type(belay_options) :: options
    integer :: ierr
    logical :: exists
    call fill(u, 6, 10*rank)
    w = u
    number = 5
    call belay_state_create(state)
    call belay_add_piece(state, "u", u, [3, 2*ranks], [1, 2*rank + 1])
    call belay_add(state, "number", number)
    call belay_options_create(options)
    call belay_options_set(options, "file_layout", "per_node")
    call belay_options_set_sharding_policy(options, "columns", group_columns, &
        parameters="version=1")
    call belay_save(comm, dir//"/sharding", 1_int64, state, options)
    call belay_save(comm, dir//"/sharding", 2_int64, state, options)
    call expect_true("calls on rank 0 only, for the first save", &
        calls == merge(ranks, 0, rank == 0))
    inquire (file=dir//"/sharding/step_00000002/data_00001_of_00002.h5", &
        exist=exists)
    call expect_true("a file of each group", exists)
    u = 0
    call belay_restore(comm, dir//"/sharding", state)
    call expect_true("the columns", all(u == w))

    call belay_options_set_sharding_policy(options, "nothing", group_nothing)
    call belay_save(comm, dir//"/sharding", 3_int64, state, options, ierr)
    call expect_code("a piece that is not there", belay_invalid_argument, ierr)
    call expect_message("no such piece")
    call belay_options_set_sharding_policy(options, "lines", group_lines)
    call belay_save(comm, dir//"/sharding", 3_int64, state, options, ierr)
    call expect_code("an axis is missing", belay_invalid_argument, ierr)
    call belay_options_set_sharding_policy(options, " ", group_lines, ierr=ierr)
    call expect_code("no description", belay_invalid_argument, ierr)
    call belay_options_free(options)

    call belay_options_create(options)
    call belay_options_set(options, "max_shard_size", 24)
    call belay_save(comm, dir//"/limited", 1_int64, state, options)
    inquire (file=dir//"/limited/step_00000001/data_00001_of_00003.h5", &
        exist=exists)
    call expect_true("files of a limit", exists)
    call belay_options_free(options)
    call belay_state_free(state)
  end subroutine

end module test_sharding
