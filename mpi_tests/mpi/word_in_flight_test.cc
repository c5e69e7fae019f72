#include "mpi/word_in_flight.h"

#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "comm_fixture.h"
#include "mpi_test.h"

namespace belay::word_in_flight_test {
namespace {

using testing::WorldRank;
using testing::WorldSize;

void Add(void* from, void* to, int* count, MPI_Datatype*) {
  for (int i = 0; i < *count; ++i) {
    static_cast<uint64_t*>(to)[i] += static_cast<uint64_t*>(from)[i];
  }
}

uint64_t Sum() { return WorldSize() * (WorldSize() + 1) / 2; }

class WordInFlightTest : public testing::CommFixture {
 protected:
  // Adds the numbers from 1 to the number of ranks.
  Status Start(WordInFlight& word) {
    return word.Start(comm_, WorldRank() + 1, &Add);
  }
};

TEST_F(WordInFlightTest, ReducesAgainAndAgain) {
  WordInFlight word;
  EXPECT_FALSE(word.is_started());
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(Start(word), absl::OkStatus());
    EXPECT_TRUE(word.is_started());
    EXPECT_EQ(word.Finish(comm_, 60, "step").value(), Sum());
    EXPECT_FALSE(word.is_started());
  }
}

TEST_F(WordInFlightTest, OthersUseTheCommunicatorMeanwhile) {
  WordInFlight first;
  EXPECT_EQ(Start(first), absl::OkStatus());
  WordInFlight second = std::move(first);
  EXPECT_EQ(Start(first), absl::OkStatus());
  int one = 1;
  MPI_Allreduce(MPI_IN_PLACE, &one, 1, MPI_INT, MPI_SUM, comm_.raw());
  EXPECT_EQ(one, WorldSize());
  EXPECT_EQ(second.Finish(comm_, 60, "step").value(), Sum());
  EXPECT_EQ(first.Finish(comm_, 60, "step").value(), Sum());
}

// Nobody asks for the last one: closing the communicator completes it, also
// where ranks come late.
TEST_F(WordInFlightTest, IsLeftBehind) {
  for (int late = 0; late < WorldSize(); ++late) {
    if (WorldRank() == late) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    Comm comm = *Comm::Duplicate(MPI_COMM_WORLD);
    std::optional<WordInFlight> word(std::in_place);
    EXPECT_EQ(word->Start(comm, 1, &Add), absl::OkStatus());
    if (late % 2 == 0) word.reset();
    EXPECT_EQ(comm.Close(), absl::OkStatus());
    if (word) {
      EXPECT_FALSE(word->is_started());
    }
  }
}

TEST_F(WordInFlightTest, AnotherCommunicator) {
  Comm other = *Comm::Duplicate(MPI_COMM_WORLD);
  WordInFlight word;
  EXPECT_EQ(Start(word), absl::OkStatus());
  EXPECT_EQ(word.Finish(comm_, 60, "step").value(), Sum());
  EXPECT_EQ(word.Start(other, 1, &Add), absl::OkStatus());
  EXPECT_EQ(word.Finish(other, 60, "step").value(), WorldSize());
  EXPECT_EQ(other.Close(), absl::OkStatus());
  EXPECT_EQ(Start(word), absl::OkStatus());
  EXPECT_EQ(word.Finish(comm_, 60, "step").value(), Sum());
}

// Completed by MPI_Finalize alone: neither asked for nor closed.
TEST_F(WordInFlightTest, IsLeftToTheEnd) {
  Comm comm = *Comm::Duplicate(MPI_COMM_WORLD);
  WordInFlight word;
  EXPECT_EQ(word.Start(comm, 1, &Add), absl::OkStatus());
  EXPECT_TRUE(word.is_started());
}

}  // namespace
}  // namespace belay::word_in_flight_test
