// What is stored by rows and wanted by columns: rows are read whole, and each
// rank takes its columns out of them.

#include <gtest/gtest.h>

#include "values.h"

namespace belay::whole_rows_test {
namespace {

using testing::Values;

constexpr uint64_t kSeed = 3;
const Shape kShape = {4096, 768};

class WholeRowsTest : public testing::CheckpointTest {
 protected:
  Values Cut(int axis) const {
    Values values;
    values.AddCut("w", DType::kF32, kShape, axis, rank_, size_);
    values.AddCut("b", DType::kF32, {999}, 0, rank_, size_);
    return values;
  }
  void SaveRows(const SaveOptions& options = {}) {
    Values rows = Cut(0);
    rows.Fill(kSeed);
    const auto saved = Save(comm_, run(), 1, rows.MakeState(), options);
    ASSERT_TRUE(saved.ok()) << saved.status();
  }
  RestoreResult RestoreColumns(const RestoreOptions& options) {
    Values columns = Cut(1);
    columns.Spoil(kSeed);
    const auto restored =
        Restore(comm_, run(), 1, columns.MakeState(), options);
    EXPECT_TRUE(restored.ok()) << restored.status();
    EXPECT_EQ(columns.CountWrong(kSeed), 0);
    return restored.ok() ? *restored : RestoreResult{};
  }
};

TEST_F(WholeRowsTest, AreChosenWhereColumnsWouldBeSlivers) {
  if (size_ == 1) GTEST_SKIP() << "one rank wants all of it";
  SaveRows();
  const RestoreResult result = RestoreColumns({});
  EXPECT_EQ(result.read_sharing, ReadSharing::kOnce);
  EXPECT_EQ(result.blocks_partial, 0);
  // 12 MiB, 512 KiB at a time, begun and ended on each rank.
  EXPECT_LE(result.counters.io_calls, 2 * 24 + 8 * size_);
  EXPECT_EQ(result.counters.bytes, (4096 * 768 + 999) * 4);
  const RestoreResult alone =
      RestoreColumns({.read_sharing = ReadSharing::kEachRank});
  EXPECT_EQ(alone.read_sharing, ReadSharing::kEachRank);
  // Rows are shorter than a page, so 512 slivers are read by one call.
  EXPECT_GE(alone.counters.io_calls, 4096 / 512 * size_);
  EXPECT_LE(alone.counters.io_calls, 16 * size_);
}

TEST_F(WholeRowsTest, FromFilesOfEachRank) {
  SaveRows({.file_layout = FileLayout::kPerTask});
  RestoreColumns({});
  RestoreColumns({.read_sharing = ReadSharing::kOnce});
}

TEST_F(WholeRowsTest, InSmallPortions) {
  SaveRows();
  RestoreColumns({.read_sharing = ReadSharing::kOnce,
                  .max_bytes_in_flight = int64_t{1} << 16});
}

TEST_F(WholeRowsTest, ConvertedOnTheWay) {
  SaveRows();
  Values columns;
  const int64_t begin = 768 * rank_ / size_, end = 768 * (rank_ + 1) / size_;
  std::vector<double> wide(4096 * (end - begin));
  std::vector<float> narrow(4096 * (end - begin));
  const Box box = {{0, begin}, {4096, end - begin}};
  State state, plain;
  state.AddPiece("w", kShape, box, AtAddress(wide.data()));
  plain.AddPiece("w", kShape, box, AtAddress(narrow.data()));
  const auto restored =
      Restore(comm_, run(), 1, state, {.allow_dtype_cast = true});
  ASSERT_TRUE(restored.ok()) << restored.status();
  const auto same =
      Restore(comm_, run(), 1, plain, {.read_sharing = ReadSharing::kEachRank});
  ASSERT_TRUE(same.ok()) << same.status();
  int64_t wrong = 0;
  for (size_t i = 0; i < wide.size(); ++i) {
    // NaN is converted to NaN.
    wrong += wide[i] != narrow[i] && narrow[i] == narrow[i];
  }
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace belay::whole_rows_test
