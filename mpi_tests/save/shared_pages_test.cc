// Files in memory: ranks write bytes of the same pages at the same time.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "storage/file_system.h"
#include "storage/mapped_file.h"
#include "storage/posix_file.h"
#include "values.h"

namespace belay::shared_pages_test {
namespace {

using testing::Values;

// Until its end, temporary directories are in memory where there is such a
// place.
class UsesMemory {
 protected:
  UsesMemory() {
    if (const char* found = std::getenv("TMPDIR")) before_ = found;
    if (IsInMemory("/dev/shm")) setenv("TMPDIR", "/dev/shm", 1);
  }
  ~UsesMemory() {
    if (before_.has_value()) {
      setenv("TMPDIR", before_->c_str(), 1);
    } else {
      unsetenv("TMPDIR");
    }
  }

 private:
  std::optional<std::string> before_;
};

// Takes the turn to write to the data file in `directory` as soon as there is
// one, and keeps it to its own end: the ranks fill pages.
class TurnTaker {
 public:
  explicit TurnTaker(std::string directory)
      : thread_([this, directory = std::move(directory)] {
          const std::string path = directory + "/data_00000_of_00001.h5";
          int fd = -1;
          for (; fd < 0 && !ends_; Nap()) fd = open(path.c_str(), O_RDWR);
          for (bool is_mine = false; fd >= 0 && !ends_ && !is_mine; Nap()) {
            const WriteTurn turn(fd);
            is_mine = !turn.is_taken();
            while (is_mine && !ends_) Nap();
          }
          if (fd >= 0) close(fd);
        }) {}
  ~TurnTaker() {
    ends_ = true;
    thread_.join();
  }

 private:
  static void Nap() {
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }

  std::atomic<bool> ends_ = false;
  std::thread thread_;
};

class SharedPagesTest : private UsesMemory, public testing::CheckpointTest {};

TEST_F(SharedPagesTest, EveryByteIsTheLastOneWritten) {
  if (!IsInMemory(dir_.path())) GTEST_SKIP() << "needs a tmpfs at /dev/shm";
  Values values;
  // Pieces of about 100 KB, of which none begins with a page.
  for (int64_t i = 0; i < 40; ++i) {
    values.AddCut("w" + std::to_string(i), DType::kU8, {size_, 100003 + i}, 0,
                  rank_, size_);
  }
  // Pieces of one tile and more.
  values.AddCut("large", DType::kU8, {size_, 1000003}, 0, rank_, size_);
  // Slivers, which ranks gather for each other.
  values.AddCut("slivers", DType::kU8, {1001, 1001}, 1, rank_, size_);
  int64_t step = 0;
  for (const Transfer transfer :
       {Transfer::kIndependent, Transfer::kTwoPhase, Transfer::kAuto}) {
    ++step;
    values.Fill(step);
    std::optional<TurnTaker> taker;
    if (rank_ == 0) taker.emplace(StepFile(step, "") + ".inprogress");
    const auto saved =
        Save(comm_, run(), step, values.MakeState(),
             {.transfer = transfer, .durable = false, .read_back = true});
    taker.reset();
    EXPECT_TRUE(saved.ok()) << saved.status();
    ExpectRestores(values, step, step);
  }
}

}  // namespace
}  // namespace belay::shared_pages_test
