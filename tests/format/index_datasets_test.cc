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

// An index whose first array has room to grow.
SavedCheckpoint RoomyIndex() {
  SavedCheckpoint saved = SmallIndex();
  saved.has_checksums = false;
  saved.checksums.clear();
  saved.datasets[1].offset = 0;  // before it
  saved.datasets[3].offset = 4;
  return saved;
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
  SavedCheckpoint saved = RoomyIndex();
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

// Bytes that are stored once count once, whoever names them.
TEST(IndexDatasetsTest, DatasetsShareNoBytes) {
  const auto shared = [](const std::string& keys, const std::string& where) {
    return absl::DataLossError(
        absl::StrCat("read \"dir/index.h5\": datasets of ", keys,
                     " share bytes of file ", where, ")"));
  };
  SavedCheckpoint saved = SmallIndex();
  saved.datasets[1].offset = 195;  // the last byte of "a"
  EXPECT_EQ(Convert(ToColumns(saved)),
            shared("\"a\" and \"b\"",
                   "\"data_00000_of_00002.h5\" (need an offset of at least "
                   "196, found 195"));
  saved.datasets[1].offset = 196;
  EXPECT_EQ(Convert(ToColumns(saved)), absl::OkStatus());
  // In another order, and in the place of another one.
  saved.datasets[4].offset = 50;
  EXPECT_EQ(Convert(ToColumns(saved)),
            shared("\"d/e\" and \"d/f\"",
                   "\"data_00001_of_00002.h5\" (need an offset of at least 58, "
                   "found 50"));
  // What an array has none of lies anywhere.
  saved = SmallIndex();
  saved.datasets.insert(saved.datasets.begin() + 2,
                        {.array = 2, .box = WholeBox({0, 2}), .offset = 100});
  EXPECT_EQ(Convert(ToColumns(saved)), absl::OkStatus());
}

TEST(IndexDatasetsTest, AFileIsListedOnce) {
  SavedCheckpoint saved = SmallIndex();
  saved.files[1].name = saved.files[0].name;
  EXPECT_EQ(Convert(ToColumns(saved)),
            absl::DataLossError("read \"dir/index.h5\": file "
                                "\"data_00000_of_00002.h5\" is listed twice"));
}

// A few bytes that say so, and a sparse data file.
TEST(IndexDatasetsTest, ChunksHaveALimit) {
  SavedCheckpoint saved = RoomyIndex();
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

// A few compressed bytes that are said to be a gigabyte, of which a vector that
// takes the stored length would be made.
TEST(IndexDatasetsTest, FilteredDatasetsFitTheirFile) {
  SavedCheckpoint saved = SmallIndex();
  saved.has_checksums = false;
  saved.checksums.clear();
  saved.arrays[0].shape = {1 << 20, 1 << 8};
  StoredDataset& dataset = saved.datasets[0];
  dataset.box = WholeBox({1 << 20, 1 << 8});
  dataset.chunk = {1 << 20, 1 << 8};
  dataset.offset = -1;
  dataset.filters = {{.id = 2, .parameters = {4}},
                     {.id = 1, .parameters = {6}}};
  dataset.path = "a";
  saved.files[0].bytes = 1 << 20;
  EXPECT_EQ(Convert(ToColumns(saved)), absl::OkStatus());
  saved.files[0].bytes = 1 << 18;
  EXPECT_EQ(
      Convert(ToColumns(saved)),
      absl::DataLossError(
          "read \"dir/index.h5\": key \"a\": file "
          "\"data_00000_of_00002.h5\" is too short for what it is said to "
          "hold (need 516222 bytes or more and 0 for others, found "
          "262144)"));
  // Without compression each byte needs one.
  dataset.filters = {{.id = 3}};
  saved.files[0].bytes = 1 << 29;
  EXPECT_EQ(Convert(ToColumns(saved)).code(), absl::StatusCode::kDataLoss);
  // What filters of others can do is not known.
  dataset.filters = {{.id = 32015}};
  saved.files[0].bytes = 1 << 10;
  EXPECT_EQ(Convert(ToColumns(saved)), absl::OkStatus());
}

// Each of them could be, but not all: each file claim counts.
TEST(IndexDatasetsTest, FilteredDatasetsFitTheirFileTogether) {
  SavedCheckpoint saved = SmallIndex();
  saved.has_checksums = false;
  saved.checksums.clear();
  saved.arrays[0].shape = {1 << 20, 1 << 8};
  StoredDataset half = saved.datasets[0];
  half.offset = -1;
  half.filters = {{.id = 1, .parameters = {6}}};
  half.path = "a";
  half.box = {{0, 0}, {1 << 19, 1 << 8}};
  half.chunk = {1 << 19, 1 << 8};
  saved.datasets[0] = half;
  half.box.offset = {1 << 19, 0};
  saved.datasets.insert(saved.datasets.begin() + 1, half);
  saved.files[0].bytes = 600000;
  EXPECT_EQ(Convert(ToColumns(saved)), absl::OkStatus());
  saved.files[0].bytes = 500000;
  EXPECT_EQ(Convert(ToColumns(saved)).code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace belay::index_datasets_test
