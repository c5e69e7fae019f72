// What the datasets of an index may claim.

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "format/index_columns.h"
#include "store_testing.h"

namespace belay::index_datasets_test {
namespace {

Status Convert(const IndexColumns& columns) {
  return FromColumns(columns, "dir/index.h5").status();
}

// Else memory that nothing was read into is taken for values.
TEST(IndexDatasetsTest, DatasetsHoldEachElementOnce) {
  const auto untiled = [](const std::string& key, const std::string& what) {
    return absl::DataLossError(absl::StrCat(
        "read \"dir/index.h5\": the datasets of \"", key,
        "\" do not hold each element exactly once (need ", what, ")"));
  };
  IndexColumns columns = ToColumns(SmallIndex());
  columns.dataset_box[10] = 0;  // both rows of "d/f" are its first
  EXPECT_EQ(Convert(columns),
            untiled("d/f", "4 elements, found 4, some of them twice"));
  SavedCheckpoint saved = SmallIndex();
  saved.datasets.pop_back();
  EXPECT_EQ(Convert(ToColumns(saved)), untiled("d/f", "4 elements, found 2"));
  saved = SmallIndex();
  saved.datasets.insert(saved.datasets.begin(), saved.datasets[0]);
  EXPECT_EQ(Convert(ToColumns(saved)), untiled("a", "24 elements, found 48"));
}

// Else sums of them are negative.
TEST(IndexDatasetsTest, BytesOfAllArraysCanBeCounted) {
  constexpr int64_t kHuge = int64_t{1} << 60;
  SavedCheckpoint saved = SmallIndex();
  saved.has_checksums = false;
  saved.checksums.clear();
  saved.arrays[0].shape = {kHuge / 4, 1};
  saved.datasets[0].box = WholeBox({kHuge / 4, 1});
  saved.datasets[0].chunk = {};
  saved.files[0].bytes = INT64_MAX;
  EXPECT_EQ(Convert(ToColumns(saved)), absl::OkStatus());
  saved.arrays[1].string_bytes = 7 * kHuge;
  saved.datasets[1].box = WholeBox({7 * kHuge});
  // One file would be too short for both.
  saved.datasets[1].file = static_cast<int32_t>(saved.files.size());
  saved.files.push_back({.name = "other.h5", .bytes = INT64_MAX});
  EXPECT_EQ(Convert(ToColumns(saved)),
            absl::DataLossError(
                "read \"dir/index.h5\": the arrays up to \"b\" have too many "
                "bytes (need at most 9223372036854775807, found "
                "9223372036854775808)"));
}

// A few bytes that say so, and a sparse data file.
TEST(IndexDatasetsTest, ChunksHaveALimit) {
  SavedCheckpoint saved = SmallIndex();
  saved.has_checksums = false;
  saved.checksums.clear();
  saved.arrays[0].shape = {1 << 20, 2};
  saved.datasets[0].box = WholeBox({1 << 20, 2});
  saved.datasets[0].chunk = {1, 2};
  saved.files[0].bytes = 1 << 24;
  EXPECT_EQ(Convert(ToColumns(saved)), absl::OkStatus());
  saved.datasets[0].chunk = {1, 1};
  EXPECT_EQ(Convert(ToColumns(saved)),
            absl::ResourceExhaustedError(
                "read \"dir/index.h5\": key \"a\": there are too many chunks; "
                "save it in larger ones (need at most 1048704, found 2097152, "
                "and 0 before)"));
}

}  // namespace
}  // namespace belay::index_datasets_test
