// Restores the golden checkpoints, on any number of ranks.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "belay/checkpoint.h"
#include "belay/save_restore.h"
#include "golden/handled.h"
#include "golden/rows.h"
#include "golden/structs.h"
#include "golden/values.h"
#include "mpi_test.h"

namespace belay {
namespace {

std::string GoldenDir() {
  return std::filesystem::path(__FILE__)
      .parent_path()
      .parent_path()
      .parent_path()
      .append("tests/golden/format_1_0")
      .string();
}

int64_t BytesOf(const Shard& shard) {
  return NumElements(shard.box.shape) * DTypeSize(shard.dtype);
}

// Fills the memory of a state with other values.
void Spoil(const State& state) {
  for (const Shard& shard : state.shards()) {
    if (shard.text != nullptr) *shard.text = "spoiled";
    if (shard.data != nullptr) std::memset(shard.data, 0x55, BytesOf(shard));
  }
}

// Expects that two states of the same structure hold the same bytes.
void ExpectSameValues(const State& found, const State& need) {
  ASSERT_EQ(found.shards().size(), need.shards().size());
  for (size_t i = 0; i < need.shards().size(); ++i) {
    const Shard &a = found.shards()[i], &b = need.shards()[i];
    if (b.text != nullptr) {
      EXPECT_EQ(*a.text, *b.text) << b.key;
    } else {
      EXPECT_EQ(std::memcmp(a.data, b.data, BytesOf(b)), 0) << b.key;
    }
  }
}

// The rows of "w" that this rank wants: other pieces than those written.
Box MyRows() {
  const int rank = testing::WorldRank(), size = testing::WorldSize();
  const int64_t begin = golden::kRows * rank / size;
  const int64_t end = golden::kRows * (rank + 1) / size;
  return {{begin, 0}, {end - begin, golden::kColumns}};
}

class GoldenTest : public ::testing::TestWithParam<int64_t> {};

TEST_P(GoldenTest, EveryValueIsRestored) {
  StatusOr<Comm> comm = Comm::Duplicate(MPI_COMM_WORLD);
  ASSERT_TRUE(comm.ok()) << comm.status();
  golden::Values found, need;
  State state, expected;
  found.AddTo(state);
  need.AddTo(expected);
  const std::vector<int32_t> rows = golden::ValuesOfW(MyRows());
  std::vector<int32_t> my_rows(rows.size());
  state.AddPiece("w", {golden::kRows, golden::kColumns}, MyRows(),
                 AtAddress(my_rows.data()));
  std::vector<int32_t> expected_rows = rows;
  expected.AddPiece("w", {golden::kRows, golden::kColumns}, MyRows(),
                    AtAddress(expected_rows.data()));
  Spoil(state);
  const StatusOr<RestoreResult> result =
      Restore(*comm, GoldenDir(), GetParam(), state);
  ASSERT_TRUE(result.ok()) << result.status();
  ExpectSameValues(state, expected);
  EXPECT_EQ(result->step, GetParam());
  EXPECT_EQ(result->blocks_verified, 21);
  EXPECT_EQ(result->blocks_partial, 0);
  EXPECT_EQ(comm->Close(), absl::OkStatus());
}

INSTANTIATE_TEST_SUITE_P(All, GoldenTest,
                         ::testing::Values(golden::kSharedStep,
                                           golden::kGroupsStep,
                                           golden::kPerTaskStep,
                                           golden::kFiltersStep));

TEST(GoldenValuesTest, ValuesWithHandlersAreRestored) {
  StatusOr<Comm> comm = Comm::Duplicate(MPI_COMM_WORLD);
  ASSERT_TRUE(comm.ok()) << comm.status();
  const golden::Field need;
  golden::Field found;
  found.signal = {{0}, "?"};
  found.station = {};
  found.empty = need.station;
  found.number = 0;
  const TypeHandlerRegistry handlers = golden::Handlers();
  Checkpoint checkpoint(*comm, {{"field", found}});
  const auto status = checkpoint.Restore(
      StepPath(GoldenDir(), golden::kValuesStep), {.handlers = &handlers});
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_EQ(status->AssertConsumed(), absl::OkStatus());
  EXPECT_EQ(found.signal, need.signal);
  EXPECT_EQ(found.station, need.station);
  EXPECT_FALSE(found.empty.is_there);
  EXPECT_EQ(found.number, need.number);
  EXPECT_EQ(comm->Close(), absl::OkStatus());
}

// All points there are, in their order, whatever the number of ranks.
TEST(GoldenRowsTest, RowsOfRanksAreRestored) {
  StatusOr<Comm> comm = Comm::Duplicate(MPI_COMM_WORLD);
  ASSERT_TRUE(comm.ok()) << comm.status();
  golden::Rows found;
  State state;
  found.AddTo(state);
  const StatusOr<RestoreResult> result =
      Restore(*comm, GoldenDir(), golden::kRowsStep, state);
  ASSERT_TRUE(result.ok()) << result.status();
  std::vector<std::array<double, 2>> all;
  for (int rank = 0; rank < golden::kRowsRanks; ++rank) {
    for (const auto& point : golden::Rows(rank).points) all.push_back(point);
  }
  const int size = comm->size(), rank = comm->rank();
  std::vector<std::array<double, 2>> mine;
  for (int i = 0; i < 4; ++i) {
    const int first = 4 / size * rank + std::min(rank, 4 % size);
    const int count = 4 / size + (rank < 4 % size ? 1 : 0);
    if (i >= first && i < first + count) mine.push_back(all[i]);
  }
  EXPECT_EQ(found.points, mine);
  EXPECT_EQ(found.text, "");
  EXPECT_EQ(comm->Close(), absl::OkStatus());
}

TEST(GoldenStructsTest, FieldsAreRestored) {
  StatusOr<Comm> comm = Comm::Duplicate(MPI_COMM_WORLD);
  ASSERT_TRUE(comm.ok()) << comm.status();
  std::vector<golden::Body> found, all;
  State state;
  state.AddRows("bodies", found, {.source = [](int, int, int) { return 0; }});
  const StatusOr<RestoreResult> result =
      Restore(*comm, GoldenDir(), golden::kStructsStep, state);
  ASSERT_TRUE(result.ok()) << result.status();
  const int saved_by = comm->size() == golden::kRowsRanks ? comm->rank() : 0;
  EXPECT_EQ(found, golden::Bodies(saved_by));
  EXPECT_EQ(comm->Close(), absl::OkStatus());
}

}  // namespace
}  // namespace belay
