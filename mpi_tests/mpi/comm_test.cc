#include "belay/comm.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "core/fault.h"
#include "mpi_test.h"

namespace belay::comm_test {
namespace {

using testing::WorldRank;
using testing::WorldSize;

TEST(Comm, DuplicateHasRanksOfTheOriginalAndReturnsErrors) {
  StatusOr<Comm> comm = Comm::Duplicate(MPI_COMM_WORLD);
  ASSERT_TRUE(comm.ok()) << comm.status();
  EXPECT_EQ(comm->rank(), WorldRank());
  EXPECT_EQ(comm->size(), WorldSize());
  int relation = MPI_IDENT;
  MPI_Comm_compare(comm->raw(), MPI_COMM_WORLD, &relation);
  EXPECT_EQ(relation, MPI_CONGRUENT);
  EXPECT_NE(MPI_Send(nullptr, 0, MPI_BYTE, WorldSize(), 0, comm->raw()),
            MPI_SUCCESS);
  EXPECT_EQ(comm->Close(), absl::OkStatus());
  EXPECT_EQ(comm->raw(), MPI_COMM_NULL);
  EXPECT_EQ(comm->Close(), absl::OkStatus());
}

TEST(Comm, DuplicateRefusesTheNullCommunicator) {
  EXPECT_EQ(Comm::Duplicate(MPI_COMM_NULL).status(),
            absl::InvalidArgumentError(
                "duplicate communicator: it is MPI_COMM_NULL"));
}

TEST(Comm, DuplicateRefusesAnIntercommunicator) {
  if (WorldSize() < 2) GTEST_SKIP() << "needs two ranks";
  const int half = WorldRank() % 2;
  MPI_Comm mine = MPI_COMM_NULL, both = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, half, WorldRank(), &mine);
  MPI_Intercomm_create(mine, 0, MPI_COMM_WORLD, 1 - half, 0, &both);
  EXPECT_EQ(Comm::Duplicate(both).status(),
            absl::InvalidArgumentError(
                "duplicate communicator: it is an intercommunicator"));
  MPI_Comm_free(&both);
  MPI_Comm_free(&mine);
}

// With one, Open MPI's MPI_Ialltoallw reads as many datatypes as a rank has
// neighbours.
TEST(Comm, DuplicateHasNoTopology) {
  for (int dimensions = 1; dimensions <= 4; ++dimensions) {
    std::vector<int> lengths(static_cast<size_t>(dimensions));
    MPI_Dims_create(WorldSize(), dimensions, lengths.data());
    const std::vector<int> periodic(lengths.size(), 1);
    MPI_Comm grid = MPI_COMM_NULL;
    MPI_Cart_create(MPI_COMM_WORLD, dimensions, lengths.data(), periodic.data(),
                    1, &grid);
    int rank = -1;
    MPI_Comm_rank(grid, &rank);
    StatusOr<Comm> comm = Comm::Duplicate(grid);
    ASSERT_TRUE(comm.ok()) << comm.status();
    EXPECT_EQ(comm->rank(), rank);
    EXPECT_EQ(comm->size(), WorldSize());
    int topology = MPI_CART;
    MPI_Topo_test(comm->raw(), &topology);
    EXPECT_EQ(topology, MPI_UNDEFINED);
    EXPECT_EQ(comm->Close(), absl::OkStatus());
    MPI_Comm_free(&grid);
  }
}

TEST(Comm, SplitRefusesAClosedCommunicator) {
  StatusOr<Comm> comm = Comm::Duplicate(MPI_COMM_WORLD);
  ASSERT_TRUE(comm.ok()) << comm.status();
  EXPECT_EQ(comm->Close(), absl::OkStatus());
  EXPECT_EQ(comm->Split(0).status(),
            absl::FailedPreconditionError(
                "split communicator: it is closed or was moved from"));
}

TEST(Comm, MoveLeavesNothingBehind) {
  StatusOr<Comm> comm = Comm::Duplicate(MPI_COMM_WORLD);
  ASSERT_TRUE(comm.ok()) << comm.status();
  Comm moved = *std::move(comm);
  EXPECT_EQ(comm->raw(), MPI_COMM_NULL);
  EXPECT_EQ(comm->rank(), -1);
  EXPECT_EQ(comm->size(), 0);
  Comm assigned;
  assigned = std::move(moved);
  EXPECT_EQ(assigned.rank(), WorldRank());
  EXPECT_EQ(assigned.Close(), absl::OkStatus());
}

TEST(Comm, SplitKeepsTheOrderOfRanks) {
  StatusOr<Comm> comm = Comm::Duplicate(MPI_COMM_WORLD);
  ASSERT_TRUE(comm.ok()) << comm.status();
  StatusOr<Comm> half = comm->Split(WorldRank() % 2);
  ASSERT_TRUE(half.ok()) << half.status();
  EXPECT_EQ(half->rank(), WorldRank() / 2);
  EXPECT_EQ(half->size(), (WorldSize() + 1 - WorldRank() % 2) / 2);
  EXPECT_EQ(half->Close(), absl::OkStatus());
  EXPECT_EQ(comm->Close(), absl::OkStatus());
}

TEST(Comm, SplitWithNegativeColorHasNoRanks) {
  StatusOr<Comm> comm = Comm::Duplicate(MPI_COMM_WORLD);
  ASSERT_TRUE(comm.ok()) << comm.status();
  StatusOr<Comm> first = comm->Split(WorldRank() == 0 ? 5 : -1);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->size(), WorldRank() == 0 ? 1 : 0);
  EXPECT_EQ(first->rank(), WorldRank() == 0 ? 0 : -1);
  EXPECT_EQ(first->Close(), absl::OkStatus());
  EXPECT_EQ(comm->Close(), absl::OkStatus());
}

// Every rank gets the error of the rank on which the point failed.
// The points: the variable that rank 0 reads, the agreement that all ranks have
// arrived, and the call of MPI.
TEST(Comm, FaultsAreAgreed) {
  const int size = WorldSize();
  const std::string last = ": injected fault [rank " +
                           std::to_string(size - 1) + " of " +
                           std::to_string(size) + "]";
  const bool is_last = WorldRank() == size - 1;
  StatusOr<Comm> comm = Comm::Duplicate(MPI_COMM_WORLD);
  ASSERT_TRUE(comm.ok()) << comm.status();
  for (const auto& [point, site] :
       {std::pair<int, std::string>{1, "MPI_Ibcast"},
        {2, "agree"},
        {3, "MPI_Comm_dup"}}) {
    fault::Arm(is_last ? point : 0);
    EXPECT_EQ(Comm::Duplicate(MPI_COMM_WORLD).status(),
              absl::InternalError(site + last));
  }
  for (const auto& [point, site] :
       {std::pair<int, std::string>{1, "agree"}, {2, "MPI_Comm_split"}}) {
    fault::Arm(is_last ? point : 0);
    EXPECT_EQ(comm->Split(0).status(), absl::InternalError(site + last));
  }
  fault::Arm(is_last ? 1 : 0);
  EXPECT_EQ(comm->Close(), absl::InternalError("MPI_Comm_free" + last));
  fault::Disarm();
  EXPECT_EQ(comm->raw(), MPI_COMM_NULL);
}

}  // namespace
}  // namespace belay::comm_test
