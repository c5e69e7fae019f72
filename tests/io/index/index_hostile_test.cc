// Indexes that somebody has made up, or whose readers want to stop others.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "directory_fixture.h"
#include "h5_testing.h"
#include "io/index/index_file.h"
#include "store_testing.h"

namespace belay::index_hostile_test {
namespace {

class IndexHostileTest : public DirectoryTest {
 protected:
  std::string Index() const { return Path("index.h5"); }
};

// A file with holes may be as long as it likes.
TEST_F(IndexHostileTest, WhatTakesNoSpaceTakesNoMemory) {
  for (const int64_t rows : {1, 2, 1 << 20}) {
    h5::Handle file = h5::Value(h5::CreateFile(Index()));
    h5::ObjectCache cache;
    h5::Value(h5::CreateDataset(file, cache,
                                {".belay/header/magic",
                                 DType::kString,
                                 (int64_t{1} << 31) / rows,
                                 {rows},
                                 {}}));
    cache = {};
    h5::Ok(file.Close());
    ASSERT_GE(std::filesystem::file_size(Index()), uint64_t{1} << 31);
    const Status status = ReadIndex(dir_).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    EXPECT_NE(status.message().find("takes more memory"), status.message().npos)
        << status;
    std::filesystem::remove(Index());
  }
}

// Anybody who may read a file can hold a lock on it.
TEST_F(IndexHostileTest, ALockOfAReaderStopsNobody) {
  const SavedCheckpoint saved = SmallIndex();
  const IndexImage image = h5::Value(CreateIndex(Index(), saved));
  h5::Ok(FinishIndex(Index(), image, saved.step, saved.checksums, false));
  const int fd = open(Index().c_str(), O_RDONLY);
  ASSERT_EQ(flock(fd, LOCK_EX), 0);
  ExpectSame(h5::Value(ReadIndex(dir_)), saved);
  close(fd);
}

}  // namespace
}  // namespace belay::index_hostile_test
