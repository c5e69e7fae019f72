#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "file_bytes.h"
#include "storage/file_system.h"
#include "storage/mapped_file.h"
#include "storage/posix_file.h"

namespace belay::file_pages_test {
namespace {

using Parts = std::vector<std::span<const std::byte>>;

constexpr int64_t kFileBytes = int64_t{4} << 20;

std::string Pattern(size_t bytes, unsigned seed) {
  std::string text(bytes, '\0');
  for (size_t i = 0; i < bytes; ++i) {
    text[i] = static_cast<char>((i * 2654435761U + seed * 977) >> 11);
  }
  return text;
}

Parts PartsOf(const std::string& text, size_t first) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.first(first), bytes.subspan(first)};
}

// What this process has written by calls, which pages of a mapping are not.
int64_t WrittenByCalls() {
  std::ifstream io("/proc/self/io");
  std::string name;
  int64_t bytes = 0;
  while (io >> name >> bytes) {
    if (name == "wchar:") return bytes;
  }
  return -1;
}

// A file of 4 MiB of dots in memory.
class FilePagesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = "/dev/shm/belay_test_XXXXXX";
    if (!IsInMemory("/dev/shm") || mkdtemp(name.data()) == nullptr) {
      GTEST_SKIP() << "needs a tmpfs at /dev/shm";
    }
    dir_ = name;
    path_ = dir_ + "/a";
    testing::PutFile(path_, std::string(kFileBytes, '.'));
    const int fd = OpenFd(O_RDWR);
    const bool can_fill = FillPages(fd, 0, PartsOf(std::string(4096, '.'), 0));
    close(fd);
    if (!can_fill || WrittenByCalls() < 0) {
      GTEST_SKIP() << "needs MADV_POPULATE_WRITE (Linux 5.14) and /proc";
    }
  }
  ~FilePagesTest() override {
    if (!dir_.empty()) std::filesystem::remove_all(dir_);
  }

  PosixFile OpenBeside() const {
    return PosixFile::Open(path_, PosixFile::Mode::kWriteBeside).value();
  }
  int OpenFd(int flags) const { return open(path_.c_str(), flags); }

  // What the file should hold with `text` at `offset`.
  static std::string Dotted(int64_t offset, const std::string& text) {
    std::string all(kFileBytes, '.');
    all.replace(offset, text.size(), text);
    return all;
  }

  std::string dir_;
  std::string path_;
};

TEST_F(FilePagesTest, CopiesPartsAndTouchesNothingElse) {
  const int fd = OpenFd(O_RDWR);
  for (const int64_t offset : {0, 1, 4095, 4096, 12345}) {
    testing::PutFile(path_, std::string(kFileBytes, '.'));
    const std::string text = Pattern(300001, 1);
    const int64_t before = WrittenByCalls();
    EXPECT_TRUE(FillPages(fd, offset, PartsOf(text, 100007)));
    EXPECT_EQ(WrittenByCalls(), before);
    EXPECT_TRUE(testing::FileBytes(path_) == Dotted(offset, text)) << offset;
  }
  close(fd);
}

TEST_F(FilePagesTest, FillsHoles) {
  const int fd = OpenFd(O_RDWR);
  ASSERT_EQ(ftruncate(fd, 0), 0);
  ASSERT_EQ(ftruncate(fd, kFileBytes), 0);
  const std::string text = Pattern(200000, 2);
  EXPECT_TRUE(FillPages(fd, 5000, PartsOf(text, 0)));
  std::string all(kFileBytes, '\0');
  EXPECT_TRUE(testing::FileBytes(path_) == all.replace(5000, 200000, text));
  close(fd);
}

TEST_F(FilePagesTest, SaysWhereItCannot) {
  const std::string text = Pattern(100000, 3);
  const int fd = OpenFd(O_RDWR);
  EXPECT_FALSE(FillPages(fd, kFileBytes - 50000, PartsOf(text, 10)));
  // The end of the last page would be lost.
  ASSERT_EQ(ftruncate(fd, 99999), 0);
  EXPECT_FALSE(FillPages(fd, 0, PartsOf(text, 10)));
  ASSERT_EQ(ftruncate(fd, 100000), 0);
  EXPECT_TRUE(FillPages(fd, 0, PartsOf(text, 10)));
  EXPECT_FALSE(FillPages(fd, kFileBytes + 4096, PartsOf(text, 10)));
  close(fd);
  const int only_writes = OpenFd(O_WRONLY);
  EXPECT_FALSE(FillPages(only_writes, 0, PartsOf(text, 10)));
  close(only_writes);
}

TEST_F(FilePagesTest, OneOpenFileHasTheTurn) {
  const int mine = OpenFd(O_RDWR);
  const int other = OpenFd(O_RDWR);
  {
    const WriteTurn turn(mine);
    EXPECT_FALSE(turn.is_taken());
    EXPECT_TRUE(WriteTurn(other).is_taken());
    EXPECT_TRUE(WriteTurn(other).is_taken());
  }
  EXPECT_FALSE(WriteTurn(other).is_taken());
  EXPECT_FALSE(WriteTurn(mine).is_taken());
  close(mine);
  close(other);
}

TEST_F(FilePagesTest, ClosingGivesTheTurnUp) {
  const int mine = OpenFd(O_RDWR);
  const int other = OpenFd(O_RDWR);
  const WriteTurn turn(mine);
  EXPECT_TRUE(WriteTurn(other).is_taken());
  close(mine);
  EXPECT_FALSE(WriteTurn(other).is_taken());
  close(other);
}

TEST_F(FilePagesTest, WritesInTurnAndFillsPagesMeanwhile) {
  const std::string text = Pattern(500000, 4);
  PosixFile file = OpenBeside();
  const int64_t before = WrittenByCalls();
  ASSERT_TRUE(file.PwriteParts(777, PartsOf(text, 3)).ok());
  EXPECT_EQ(WrittenByCalls() - before, 500000);
  EXPECT_TRUE(testing::FileBytes(path_) == Dotted(777, text));

  testing::PutFile(path_, std::string(kFileBytes, '.'));
  const int other = OpenFd(O_RDWR);
  const WriteTurn turn(other);
  const int64_t then = WrittenByCalls();
  ASSERT_TRUE(file.PwriteParts(777, PartsOf(text, 3)).ok());
  EXPECT_EQ(WrittenByCalls(), then);
  EXPECT_TRUE(testing::FileBytes(path_) == Dotted(777, text));
  EXPECT_EQ(file.write_calls(), 2);

  const std::string little = Pattern(kLeastMappedBytes - 1, 5);
  ASSERT_TRUE(file.PwriteParts(0, PartsOf(little, 3)).ok());
  EXPECT_EQ(WrittenByCalls() - then, kLeastMappedBytes - 1);
  close(other);
}

TEST_F(FilePagesTest, WhereFilesMayNotGrowEverythingIsWritten) {
  struct rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  struct rlimit limit = before;
  limit.rlim_cur = kFileBytes;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  PosixFile file = OpenBeside();
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  const int other = OpenFd(O_RDWR);
  const WriteTurn turn(other);
  ASSERT_FALSE(turn.is_taken());
  const std::string text = Pattern(500000, 6);
  const int64_t then = WrittenByCalls();
  ASSERT_TRUE(file.PwriteParts(777, PartsOf(text, 3)).ok());
  EXPECT_EQ(WrittenByCalls() - then, 500000);
  close(other);
}

TEST_F(FilePagesTest, WritersOfTheSamePagesKeepEachOthersBytes) {
  constexpr int64_t kTile = 100003;
  constexpr int64_t kTiles = kFileBytes / kTile;
  for (int round = 0; round < 20; ++round) {
    const std::string text = Pattern(kTile * kTiles, round);
    ASSERT_EQ(truncate(path_.c_str(), 0), 0);
    ASSERT_EQ(truncate(path_.c_str(), kTile * kTiles), 0);
    std::vector<std::thread> writers;
    for (int64_t first = 0; first < 4; ++first) {
      writers.emplace_back([&, first] {
        PosixFile file = OpenBeside();
        for (int64_t i = first; i < kTiles; i += 4) {
          const std::string tile = text.substr(i * kTile, kTile);
          EXPECT_TRUE(file.PwriteParts(i * kTile, PartsOf(tile, 4096)).ok());
        }
      });
    }
    for (std::thread& writer : writers) writer.join();
    ASSERT_TRUE(testing::FileBytes(path_) == text) << round;
  }
}

}  // namespace
}  // namespace belay::file_pages_test
