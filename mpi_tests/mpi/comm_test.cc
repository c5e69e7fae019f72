#include "belay/comm.h"

#include <gtest/gtest.h>

#include <utility>

#include "base/fault.h"
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
TEST(Comm, FaultsAreAgreed) {
  const int size = WorldSize();
  const std::string last = " [rank " + std::to_string(size - 1) + " of " +
                           std::to_string(size) + "]";
  const bool is_last = WorldRank() == size - 1;
  fault::Arm(is_last ? 1 : 0);
  EXPECT_EQ(Comm::Duplicate(MPI_COMM_WORLD).status(),
            absl::InternalError("MPI_Comm_dup: injected fault" + last));
  fault::Disarm();
  StatusOr<Comm> comm = Comm::Duplicate(MPI_COMM_WORLD);
  ASSERT_TRUE(comm.ok()) << comm.status();
  fault::Arm(is_last ? 1 : 0);
  EXPECT_EQ(comm->Split(0).status(),
            absl::InternalError("MPI_Comm_split: injected fault" + last));
  fault::Arm(is_last ? 1 : 0);
  EXPECT_EQ(comm->Close(),
            absl::InternalError("MPI_Comm_free: injected fault" + last));
  fault::Disarm();
  EXPECT_EQ(comm->raw(), MPI_COMM_NULL);
}

}  // namespace
}  // namespace belay::comm_test
