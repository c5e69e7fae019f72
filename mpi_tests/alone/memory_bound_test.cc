// How much memory a save and a restore need beside the program's own, as the
// system counts it: as much as is in flight, however large the state is.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "converted_matrix.h"
#include "process_memory.h"

namespace belay {
namespace {

using testing::AsBF16;
using testing::CheckpointTest;
using testing::kCast;
using testing::PeakOf;
using testing::Piece;
using testing::ValueAt;

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kInFlight = 4 * kMiB;
constexpr int64_t kAllowed = kInFlight + 64 * kMiB;
constexpr Transfer kTransfers[] = {Transfer::kIndependent, Transfer::kTwoPhase,
                                   Transfer::kCollective, Transfer::kHdf5};

class MemoryBoundTest : public CheckpointTest {
 protected:
  static constexpr int64_t kRows = 16384;
  static constexpr int64_t kColumns = 4096;  // 256 MiB of f32

  // Saves and restores a matrix that is cut along `axis`, and measures both.
  void ExpectBound(int axis, const SaveOptions& options,
                   const RestoreOptions& restore_options,
                   float (*stored)(float)) {
    Piece<float> matrix({kRows, kColumns}, axis, rank_, size_);
    matrix.Fill(1);
    const int64_t saving = PeakOf([&] {
      const auto saved = Save(comm_, run(), 1, matrix.state(), options);
      EXPECT_TRUE(saved.ok()) << saved.status();
      if (!saved.ok()) return;
      EXPECT_LE(saved->counters.staged_bytes, kInFlight);
    });
    EXPECT_LE(saving, kAllowed);
    matrix.Spoil();
    const int64_t restoring = PeakOf([&] {
      const auto restored =
          Restore(comm_, run(), 1, matrix.state(), restore_options);
      EXPECT_TRUE(restored.ok()) << restored.status();
      if (!restored.ok()) return;
      EXPECT_LE(restored->counters.staged_bytes, kMiB);
    });
    EXPECT_LE(restoring, kAllowed);
    int64_t wrong = 0;
    matrix.ForEach([&](int64_t row, int64_t column, float value) {
      const float need = stored(ValueAt(1 + row * kColumns + column));
      wrong += value == need ? 0 : 1;
    });
    EXPECT_EQ(wrong, 0);
    RecordProperty(absl::StrCat("axis ", axis, ", transfer ",
                                static_cast<int>(options.transfer)),
                   absl::StrCat(saving / kMiB, " and ", restoring / kMiB));
  }
};

TEST_F(MemoryBoundTest, WhatIsGivenBackCounts) {
  const int64_t peak =
      PeakOf([] { EXPECT_EQ(std::vector<char>(100 * kMiB, 'x').back(), 'x'); });
  EXPECT_GE(peak, 99 * kMiB);
  EXPECT_LE(peak, 110 * kMiB);
  EXPECT_LE(PeakOf([] {}), kMiB);
}

TEST_F(MemoryBoundTest, ConvertedValues) {
  for (const Transfer transfer : kTransfers) {
    SCOPED_TRACE(static_cast<int>(transfer));
    ExpectBound(0,
                {.float32_as_bfloat16 = true,
                 .overwrite = true,
                 .transfer = transfer,
                 .max_bytes_in_flight = kInFlight,
                 .durable = false},
                kCast, AsBF16);
  }
}

TEST_F(MemoryBoundTest, ColumnsOfAContiguousArray) {
  for (const Transfer transfer : kTransfers) {
    SCOPED_TRACE(static_cast<int>(transfer));
    ExpectBound(1,
                {.array_layout = ArrayLayout::kCanonical,
                 .overwrite = true,
                 .transfer = transfer,
                 .max_bytes_in_flight = kInFlight,
                 .durable = false},
                {}, testing::AsItIs);
  }
}

}  // namespace
}  // namespace belay
