#include <gtest/gtest.h>

#include "plan/stored_arrays.h"
#include "store_testing.h"

namespace belay::single_array_test {
namespace {

TEST(SingleArrayTest, EntriesSayWhereEachArrayStands) {
  const SavedCheckpoint saved = SmallIndex();
  const std::vector<ArrayEntry> entries = ArrayEntries(saved);
  ASSERT_EQ(entries.size(), 5);
  const size_t datasets[] = {1, 1, 0, 1, 2};
  const int64_t first_blocks[] = {0, 1, 2, 2, 3};
  for (size_t i = 0; i < entries.size(); ++i) {
    EXPECT_EQ(entries[i].datasets.size(), datasets[i]) << i;
    EXPECT_EQ(entries[i].first_block, first_blocks[i]) << i;
    for (const StoredDataset& dataset : entries[i].datasets) {
      EXPECT_EQ(dataset.array, i);
    }
  }
}

// The index of array `i` of `saved`, restricted to a box.
SavedCheckpoint Restricted(const SavedCheckpoint& saved, int32_t i,
                           const Box& box) {
  return IndexOfArray(saved, i, ArrayEntries(saved)[i], box);
}

TEST(SingleArrayTest, AnIndexOfOneArrayHasItsDatasetsFilesAndChecksums) {
  const SavedCheckpoint saved = SmallIndex();
  const SavedCheckpoint one = Restricted(saved, 4, WholeBox({2, 2}));
  EXPECT_EQ(one.step, 42);
  EXPECT_EQ(one.file_layout, FileLayout::kPerTask);
  EXPECT_TRUE(one.has_checksums);
  EXPECT_EQ(one.arrays, std::vector<StoredArray>({saved.arrays[4]}));
  ASSERT_EQ(one.datasets.size(), 2);
  EXPECT_EQ(one.datasets[1],
            (StoredDataset{0, 1, {{1, 0}, {1, 2}}, {}, 58, 5, 0}));
  EXPECT_EQ(one.files, saved.files);
  EXPECT_EQ(one.checksums, std::vector<uint32_t>({14}));
}

TEST(SingleArrayTest, WhatDoesNotTouchTheBoxIsLeftOut) {
  const SavedCheckpoint saved = SmallIndex();
  const SavedCheckpoint one = Restricted(saved, 4, {{1, 1}, {1, 1}});
  ASSERT_EQ(one.datasets.size(), 1);
  EXPECT_EQ(one.datasets[0],
            (StoredDataset{0, 0, {{1, 0}, {1, 2}}, {}, 58, 5, 0}));
  EXPECT_EQ(one.files, std::vector<StoredFile>({saved.files[1]}));
  EXPECT_EQ(one.checksums, std::vector<uint32_t>({14}));
}

TEST(SingleArrayTest, ArraysWithoutBytesAndIndexesWithoutChecksums) {
  SavedCheckpoint saved = SmallIndex();
  const SavedCheckpoint empty = Restricted(saved, 2, WholeBox({0, 2}));
  EXPECT_TRUE(empty.datasets.empty());
  EXPECT_TRUE(empty.files.empty());
  EXPECT_TRUE(empty.checksums.empty());
  saved.has_checksums = false;
  saved.checksums.clear();
  const SavedCheckpoint plain = Restricted(saved, 3, {});
  EXPECT_FALSE(plain.has_checksums);
  EXPECT_EQ(plain.datasets.size(), 1);
  EXPECT_TRUE(plain.checksums.empty());
}

}  // namespace
}  // namespace belay::single_array_test
