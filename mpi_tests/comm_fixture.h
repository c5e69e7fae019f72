// A communicator of all ranks for each test, and what calls on it need.

#ifndef BELAY_MPI_TESTS_COMM_FIXTURE_H_
#define BELAY_MPI_TESTS_COMM_FIXTURE_H_

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "mpi/collective.h"
#include "mpi_test.h"

namespace belay::testing {

class CommFixture : public ::testing::Test {
 protected:
  CommFixture() : comm_(*Comm::Duplicate(MPI_COMM_WORLD)) {}
  ~CommFixture() override { EXPECT_EQ(comm_.Close(), absl::OkStatus()); }

  CommContext NewContext() {
    return CommContext{.comm = comm_, .deadline = Deadline(comm_, 60, "test")};
  }
  // How the error of that rank ends.
  std::string RankOf(int rank) {
    return absl::StrCat("[rank ", rank, " of ", WorldSize(), "]");
  }
  int last() { return WorldSize() - 1; }

  Comm comm_;
};

}  // namespace belay::testing

#endif  // BELAY_MPI_TESTS_COMM_FIXTURE_H_
