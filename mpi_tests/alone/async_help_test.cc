// A thread that gets no core, or a disk that is slow for it, while the program
// waits for its save: the call that waits writes what is left.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

#include "belay/async_saver.h"
#include "belay/checkpoint_manager.h"
#include "values.h"

namespace {

// What the library moves at a time of large values; shorter calls do not count.
constexpr int64_t kPieceBytes = int64_t{4} << 20;

// Pieces that were moved. The thread gets no core after its piece until the
// program has moved `until`.
struct Moved {
  std::atomic<int64_t> by_thread{0};
  std::atomic<int64_t> by_program{0};
  std::atomic<int64_t> until{0};

  ssize_t Count(ssize_t bytes) {
    constexpr int kMillisecond = 1000;
    constexpr int kMax = 20000;
    if (bytes != kPieceBytes) return bytes;
    if (gettid() == getpid()) {
      ++by_program;
      return bytes;
    }
    ++by_thread;
    for (int i = 0; i < kMax && by_program < until; ++i) usleep(kMillisecond);
    return bytes;
  }
};

Moved written;
Moved read_back;

}  // namespace

// The library's calls land here.
extern "C" {

ssize_t pwritev(int fd, const iovec* parts, int count, off_t offset) {
  return written.Count(syscall(SYS_pwritev, fd, parts, count, offset, 0));
}

ssize_t pwrite(int fd, const void* data, size_t size, off_t offset) {
  return written.Count(syscall(SYS_pwrite64, fd, data, size, offset));
}

ssize_t pread(int fd, void* data, size_t size, off_t offset) {
  return read_back.Count(syscall(SYS_pread64, fd, data, size, offset));
}
}

namespace belay::testing {
namespace {

class AsyncHelpTest : public CheckpointTest {
 protected:
  static constexpr int64_t kPieces = 8;

  AsyncHelpTest() {
    constexpr int64_t kColumns = kPieceBytes / 4;
    values_.AddCut("w", DType::kF32, {kPieces * size_, kColumns}, 0, rank_,
                   size_);
    for (Moved* moved : {&written, &read_back}) {
      moved->by_thread = moved->by_program = moved->until = 0;
    }
  }

  PendingSave Begin(AsyncSaver& saver, int64_t step, SaveOptions options = {}) {
    values_.Fill(static_cast<uint64_t>(step));
    options.durable = false;
    return Ok(saver.Save(run(), step, values_.MakeState(), options));
  }

  // Until the thread is where it gets no core.
  static void WaitUntilStarved(const Moved& moved) {
    while (moved.by_thread == 0) usleep(1000);
  }

  void ExpectSaved(int64_t step) {
    values_.Spoil(static_cast<uint64_t>(step));
    Ok(Restore(comm_, run(), step, values_.MakeState()));
    EXPECT_EQ(values_.CountWrong(static_cast<uint64_t>(step)), 0);
  }

  Values values_;
};

TEST_F(AsyncHelpTest, WaitWritesWhatIsLeft) {
  AsyncSaver saver(comm_);
  written.until = kPieces - 1;
  Begin(saver, 1);
  WaitUntilStarved(written);
  Ok(saver.Wait());
  EXPECT_EQ(written.by_thread, 1);
  EXPECT_EQ(written.by_program, kPieces - 1);
  ExpectSaved(1);
}

TEST_F(AsyncHelpTest, SoDoesTheNextSave) {
  AsyncSaver saver(comm_);
  written.until = kPieces - 1;
  Begin(saver, 1);
  WaitUntilStarved(written);
  EXPECT_TRUE(Begin(saver, 2).finished.has_value());
  EXPECT_GE(written.by_program, kPieces - 1);
  EXPECT_EQ(saver.Close(), absl::OkStatus());
  ExpectSaved(1);
  ExpectSaved(2);
}

TEST_F(AsyncHelpTest, SoDoesAManager) {
  const State state = values_.MakeState();
  auto manager = Ok(CheckpointManager::Create(
      comm_, state, run(),
      {.async = AsyncOptions(), .save = {.durable = false}}));
  values_.Fill(1);
  written.until = kPieces - 1;
  Ok(manager.Save(1));
  WaitUntilStarved(written);
  Ok(manager.Wait());
  EXPECT_EQ(written.by_program, kPieces - 1);
  ExpectSaved(1);
}

TEST_F(AsyncHelpTest, WaitComparesWhatIsLeft) {
  AsyncSaver saver(comm_);
  read_back.until = kPieces - 1;
  Begin(saver, 1, {.read_back = true});
  WaitUntilStarved(read_back);
  Ok(saver.Wait());
  EXPECT_EQ(read_back.by_thread, 1);
  EXPECT_EQ(read_back.by_program, kPieces - 1);
  ExpectSaved(1);
}

// Polling is no waiting.
TEST_F(AsyncHelpTest, PollLeavesItToTheThread) {
  AsyncSaver saver(comm_);
  Begin(saver, 1);
  while (!Ok(saver.Poll())) usleep(1000);
  EXPECT_EQ(written.by_thread, kPieces);
  EXPECT_EQ(written.by_program, 0);
  ExpectSaved(1);
}

TEST_F(AsyncHelpTest, TheLimitOfBytesPerSecondHolds) {
  constexpr int64_t kBytesPerSecond = kPieces * kPieceBytes;
  AsyncSaver saver(comm_, {.max_bytes_per_second = kBytesPerSecond});
  const double start = MPI_Wtime();
  Begin(saver, 1);
  Ok(saver.Wait());
  EXPECT_GE(MPI_Wtime() - start, 1);
  ExpectSaved(1);
}

}  // namespace
}  // namespace belay::testing
