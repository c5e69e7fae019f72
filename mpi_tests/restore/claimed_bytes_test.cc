// What a step says that it holds, and its files do not: no rank takes memory
// for it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "belay/checkpoint.h"
#include "belay/checkpoint_reader.h"
#include "belay/rows.h"
#include "belay/values/restore_values.h"
#include "chunk_table.h"
#include "process_memory.h"
#include "values.h"

namespace belay::claimed_bytes_test {
namespace {

using testing::ChangeChunkTables;
using testing::ChunkEntry;
using ::testing::HasSubstr;
using testing::Ok;

// 96 MiB, more than are not worth a look.
constexpr int64_t kLength = int64_t{12} << 20;
constexpr int64_t kMaxTaken = int64_t{24} << 20;

class ClaimedBytesTest : public testing::CheckpointTest {
 protected:
  // Saves zeros, a rank's part as a vector of rows.
  void SetUp() override {
    CheckpointTest::SetUp();
    std::vector<double> part(kLength / size_ +
                             (rank_ == 0 ? kLength % size_ : 0));
    State state;
    state.AddRows("rows", part);
    Ok(Save(comm_, run(), 1, state,
            {.args = {{"rows",
                       {.chunk_byte_size = 1 << 20, .filters = Deflate(9)}}},
             .durable = false}));
  }

  // On rank 0, for all.
  void Change(const std::function<void(std::vector<ChunkEntry>&)>& change) {
    if (rank_ == 0) {
      ChangeChunkTables(StepFile(1, "data_00000_of_00001.h5"), change);
    }
    MPI_Barrier(MPI_COMM_WORLD);
  }

  // Every way of a restore that takes the lengths that are stored.
  Status RestoreVector(std::vector<double>& values) {
    State state;
    state.Add("rows", values);
    return Restore(comm_, run(), 1, state).status();
  }
  Status RestoreRows(std::vector<double>& values) {
    State state;
    state.AddRows("rows", values);
    return Restore(comm_, run(), 1, state).status();
  }
  std::vector<std::function<Status()>> Ways() {
    return {[this] { return RestoreVector(values_); },
            [this] { return RestoreRows(values_); },
            [this] { return RestoreValues(comm_, run(), 1).status(); },
            [this] { return RestoreTree(comm_, run(), 1).status(); },
            [this] {
              const auto reader = CheckpointReader::Open(run());
              return reader.ok() ? reader->ReadTensor("rows").status()
                                 : reader.status();
            },
            [this] {
              const auto reader = CheckpointReader::Open(run());
              return reader.ok() ? ReadTree(*reader).status() : reader.status();
            }};
  }
  void ExpectRefused(const std::string& text) {
    for (const auto& way : Ways()) {
      Status status;
      EXPECT_LT(testing::PeakOf([&] { status = way(); }), kMaxTaken);
      EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr(text));
      EXPECT_TRUE(values_.empty());
    }
  }

  std::vector<double> values_;
};

// Honest values may be a thousand times their stored bytes.
TEST_F(ClaimedBytesTest, ZerosAreRestored) {
  EXPECT_EQ(RestoreVector(values_), absl::OkStatus());
  EXPECT_EQ(std::ssize(values_), kLength);
  for (const auto& way : Ways()) EXPECT_EQ(way(), absl::OkStatus());
}

TEST_F(ClaimedBytesTest, AChunkWhoseBytesCannotHoldIt) {
  Change([](std::vector<ChunkEntry>& entries) { entries.back().bytes = 72; });
  ExpectRefused("72 stored bytes cannot hold it");
}

TEST_F(ClaimedBytesTest, ChunksThatShareTheirBytes) {
  Change([](std::vector<ChunkEntry>& entries) {
    for (ChunkEntry& entry : entries) entry = entries[0];
  });
  ExpectRefused("shares stored bytes with key \"rows\"");
}

}  // namespace
}  // namespace belay::claimed_bytes_test
