// What saves in the background take beside the program's own memory, as the
// system counts it: what was promised, and no more after thousands of saves.
//
// BELAY_ASYNC_SAVES=10000 makes so many; a plain run fewer.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <string>

#include "belay/async_saver.h"
#include "belay/checkpoint_manager.h"
#include "fault_points.h"
#include "process_memory.h"
#include "values.h"

namespace belay::testing {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

int64_t NumSaves() {
  const char* wanted = std::getenv("BELAY_ASYNC_SAVES");
  return wanted == nullptr ? 1000 : std::atoll(wanted);
}

// What a leak would add to.
struct Held {
  int64_t bytes = MemoryOf("VmRSS");
  int64_t files =
      std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
  int64_t threads =
      std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
};

class AsyncMemoryTest : public CheckpointTest {
 protected:
  static void SetUpTestSuite() {
    UseMemory();
    mallopt(M_MMAP_THRESHOLD, 256 << 10);  // what is freed is given back
  }

  // 4 MiB on this rank, of which 32 bytes at a time lie together in the file.
  void AddShortRuns() {
    values_.AddCut("columns", DType::kF32, {kMiB / 8, 8 * size_}, 1, rank_,
                   size_);
    values_.Fill(1);
  }

  // The most that a save takes, and that it is right. Its steps take the place
  // of each other.
  int64_t PeakOfSave(const AsyncOptions& options) {
    const State state = values_.MakeState();
    const SaveOptions how{.array_layout = ArrayLayout::kCanonical,
                          .overwrite = true,
                          .durable = false};
    AsyncSaver saver(comm_, options);
    malloc_trim(0);
    const int64_t peak = PeakOf([&] {
      Ok(saver.Save(run(), 1, state, how));
      Ok(saver.Wait());
    });
    ExpectRestores(values_, 1, 1);
    return peak;
  }

  // Expects that later saves hold no more than the first ones. `settle` waits
  // for the last of them.
  template <typename SaveOnce, typename Settle>
  void ExpectNoGrowth(SaveOnce save, Settle settle) {
    const int64_t saves = NumSaves();
    constexpr int64_t kFirst = 300;
    for (int64_t i = 1; i <= kFirst; ++i) save(i);
    settle();
    const Held before;
    for (int64_t i = kFirst + 1; i <= kFirst + saves; ++i) save(i);
    settle();
    const Held after;
    // A kilobyte for each save would be ten megabytes.
    EXPECT_LE(after.bytes - before.bytes, kMiB / 2 + saves * 100);
    EXPECT_EQ(after.files, before.files);
    EXPECT_EQ(after.threads, before.threads);
  }

  Values values_;
};

// The copy and the list of its runs, which is half as long.
TEST_F(AsyncMemoryTest, StagingTakesWhatWasPromised) {
  constexpr int64_t kOther = kMiB;  // the library's own buffers
  AddShortRuns();
  PeakOfSave({});  // what the first save makes, and keeps
  for (const SnapshotMode mode : {SnapshotMode::kInCall, SnapshotMode::kLazy}) {
    const int64_t whole = PeakOfSave({.snapshot = mode});
    EXPECT_GE(whole, 5 * kMiB);
    EXPECT_LE(whole, 6 * kMiB + kOther);
    for (const int64_t limit : {9 * kMiB / 2, 2 * kMiB}) {
      EXPECT_LE(PeakOfSave({.max_staging_bytes = limit, .snapshot = mode}),
                limit + kOther)
          << "limit " << limit;
    }
  }
}

TEST_F(AsyncMemoryTest, TheFirstSaveFindsWhatWasTakenAtCreation) {
  AddShortRuns();
  PeakOfSave({});
  const int64_t whole = PeakOfSave({});
  const int64_t enough = 6 * kMiB;
  EXPECT_LE(PeakOfSave({.initial_staging_bytes = enough}), whole - 3 * kMiB);
  // Of a limit, too, only what runs need is left for the save to take.
  EXPECT_LE(PeakOfSave({.max_staging_bytes = 4 * kMiB,
                        .initial_staging_bytes = enough}),
            2 * kMiB);
}

TEST_F(AsyncMemoryTest, ThousandsOfSavesTakeNoMore) {
  values_.AddCut("w", DType::kF32, {256 * size_, 128}, 0, rank_, size_);
  values_.AddCut("columns", DType::kF64, {30, 8 * size_}, 1, rank_, size_);
  values_.AddText("text", 50);
  values_.Fill(1);
  AsyncSaver saver(comm_);
  ExpectNoGrowth(
      [&](int64_t i) {
        Ok(saver.Save(run(), 1 + i % 2, values_.MakeState(),
                      {.overwrite = true, .durable = false}));
        for (int64_t polls = i % 4; polls > 0; --polls) Ok(saver.Poll());
      },
      [&] { Ok(saver.Wait()); });
  EXPECT_EQ(saver.Close(), absl::OkStatus());
  ExpectRestores(values_, 1, 1);
}

TEST_F(AsyncMemoryTest, SoDoThoseOfAManager) {
  values_.AddCut("w", DType::kF32, {256 * size_, 128}, 0, rank_, size_);
  values_.Fill(1);
  const State state = values_.MakeState();
  auto manager = CheckpointManager::Create(comm_, state, run(),
                                           {.async = AsyncOptions(),
                                            .retention = {.max_to_keep = 2},
                                            .save = {.durable = false}});
  ASSERT_EQ(manager.status(), absl::OkStatus());
  ExpectNoGrowth(
      [&](int64_t i) {
        Ok(manager->ShouldSave(i));
        Ok(manager->Save(i));
      },
      [&] { Ok(manager->Wait()); });
  EXPECT_EQ(manager->notes().size(), 0);
  EXPECT_EQ(manager->Steps().size(), 2);
}

}  // namespace
}  // namespace belay::testing
