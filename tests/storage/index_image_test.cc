// An index that is put together before its data files exist.

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>

#include "directory_fixture.h"
#include "h5_testing.h"
#include "storage/index_file.h"
#include "store_testing.h"

namespace belay::index_image_test {
namespace {

class IndexImageTest : public DirectoryTest {};

// What is known before the data files exist.
SavedCheckpoint WithoutPlaces(SavedCheckpoint saved) {
  for (StoredDataset& dataset : saved.datasets) dataset.offset = -1;
  for (StoredFile& file : saved.files) file.bytes = 0;
  return saved;
}

TEST_F(IndexImageTest, PlacesMayComeLater) {
  Random random(11);
  for (int i = 0; i < 40; ++i) {
    SavedCheckpoint saved = RandomIndex(random);
    // A plan lists datasets by file.
    std::shuffle(saved.datasets.begin(), saved.datasets.end(), random);
    IndexImage image = h5::Value(DraftIndex("index", WithoutPlaces(saved)));
    CompleteIndex(saved, image);
    const IndexImage at_once = h5::Value(CreateIndex(Path("index.h5"), saved));
    EXPECT_EQ(image.bytes, at_once.bytes);
    EXPECT_EQ(image.step_offset, at_once.step_offset);
    EXPECT_EQ(image.time_offset, at_once.time_offset);
    EXPECT_EQ(image.checksum_offset, at_once.checksum_offset);
    EXPECT_EQ(image.digest_offset, at_once.digest_offset);
    h5::Ok(FinishIndex(Path("index.h5"), image, saved.step, saved.time,
                       saved.checksums, false));
    SavedCheckpoint found = h5::Value(ReadIndex(dir_));
    Normalize(saved);
    ExpectSame(found, saved);
    std::filesystem::remove(Path("index.h5"));
    ASSERT_FALSE(HasFailure()) << i;
  }
}

TEST_F(IndexImageTest, ATextWithANulIsRefused) {
  SavedCheckpoint saved = SmallIndex();
  saved.arrays[0].args = std::string("a\0b", 3);
  const Status status = DraftIndex("index", saved).status();
  EXPECT_EQ(status,
            absl::InvalidArgumentError(
                "write \".belay/arrays/args\": a text has a NUL in it"));
}

}  // namespace
}  // namespace belay::index_image_test
