// The turn to write, and what a process does that does not get it.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "file_bytes.h"
#include "storage/file_system.h"
#include "storage/mapped_file.h"
#include "storage/posix_file.h"

namespace {

std::function<void()> when_yielding;

}  // namespace

// Takes the place of the system's.
extern "C" int sched_yield() {
  if (when_yielding) when_yielding();
  return static_cast<int>(syscall(SYS_sched_yield));
}

namespace belay {
namespace {

constexpr int64_t kBytes = 100'000;

// A file of 100,000 dots in memory.
class WriteTurnTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = "/dev/shm/belay_test_XXXXXX";
    if (!IsInMemory("/dev/shm") || mkdtemp(name.data()) == nullptr) {
      GTEST_SKIP() << "needs a tmpfs at /dev/shm";
    }
    dir_ = name;
    path_ = dir_ + "/file";
    testing::PutFile(path_, std::string(kBytes, '.'));
    mine_ = open(path_.c_str(), O_RDWR);
    other_ = open(path_.c_str(), O_RDWR);
  }
  ~WriteTurnTest() override {
    when_yielding = nullptr;
    if (dir_.empty()) return;
    close(mine_);
    close(other_);
    std::filesystem::remove_all(dir_);
  }

  std::string dir_;
  std::string path_;
  int mine_ = -1;
  int other_ = -1;
};

TEST_F(WriteTurnTest, InACrowdOthersAreLetRunFirst) {
  for (const int yields : {1, 3, 4}) {
    std::optional<WriteTurn> turn(other_);
    when_yielding = [&turn, left = yields]() mutable {
      if (--left == 0) turn.reset();
    };
    EXPECT_EQ(WriteTurn(mine_, true).is_taken(), yields == 4);
  }
}

TEST_F(WriteTurnTest, NobodyIsLetRunWithoutNeed) {
  when_yielding = [] { FAIL() << "others were let run"; };
  EXPECT_FALSE(WriteTurn(mine_, true).is_taken());
  const WriteTurn turn(other_);
  EXPECT_TRUE(WriteTurn(mine_).is_taken());
}

TEST_F(WriteTurnTest, FilesOfManyWritersLetOthersRun) {
  for (const PosixFile::Mode mode :
       {PosixFile::Mode::kWriteBeside, PosixFile::Mode::kWriteBesideMany}) {
    PosixFile file = PosixFile::Open(path_, mode).value();
    const WriteTurn turn(other_);
    int yields = 0;
    when_yielding = [&yields] { ++yields; };
    const std::string text(kBytes - 7, 'x');
    const std::vector<std::span<const std::byte>> parts = {
        std::as_bytes(std::span(text))};
    EXPECT_TRUE(file.PwriteParts(5, parts).ok());
    EXPECT_EQ(yields, mode == PosixFile::Mode::kWriteBesideMany ? 3 : 0);
    EXPECT_EQ(testing::FileBytes(path_), "....." + text + "..");
  }
}

}  // namespace
}  // namespace belay
