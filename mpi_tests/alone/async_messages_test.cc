// What saves in the background send, counted between the library and MPI. The
// table of docs/async.md has these numbers; they are those of any number of
// ranks.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "belay/async_saver.h"
#include "counted_calls.h"
#include "manager_testing.h"
#include "values.h"

namespace belay::testing {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::IsEmpty;
using ::testing::StartsWith;
using Calls = std::vector<std::string>;

// Some hundred milliseconds for what a rank writes.
constexpr AsyncOptions kSlow{.max_bytes_per_second = 200000};
const char* const kWord = "MPI_Iallreduce 8";

void Nap() { std::this_thread::sleep_for(std::chrono::milliseconds(5)); }

// The call in which a save ends: an agreement, and what the ranks have counted.
const auto kEnd = {StartsWith("MPI_Iallreduce 32"),
                   StartsWith("MPI_Iallreduce ")};

class AsyncMessagesTest : public CheckpointTest {
 protected:
  AsyncMessagesTest() {
    values_.AddCut("w", DType::kF32, {64 * size_, 33}, 0, rank_, size_);
    values_.AddWhole("same", DType::kI32, {129});
    values_.Fill(1);
  }

  Calls OfBegin(AsyncSaver& saver, int64_t step) {
    const State state = values_.MakeState();
    return CallsOf([&] { Ok(saver.Save(run(), step, state)); });
  }

  // The calls of Poll until the save has ended.
  static std::vector<Calls> OfPolls(AsyncSaver& saver) {
    std::vector<Calls> all;
    while (saver.is_pending()) {
      all.push_back(CallsOf([&] { Ok(saver.Poll()); }));
      Nap();
    }
    return all;
  }

  // A saver whose plan is known.
  AsyncSaver Warm(const AsyncOptions& options) {
    AsyncSaver saver(comm_, options);
    OfBegin(saver, 1);
    Ok(saver.Wait());
    return saver;
  }

  Values values_;
};

// Those of a save in the foreground up to its first byte, and one for the
// checksums. All that it sends until its end is less than that sends.
TEST_F(AsyncMessagesTest, Save) {
  AsyncSaver saver = Warm({});
  const Calls begun = OfBegin(saver, 2);
  EXPECT_THAT(begun, ElementsAre("MPI_Iallreduce 32", "MPI_Ibcast 64",
                                 "MPI_Iallreduce 8", "MPI_Iallreduce 16",
                                 "MPI_Iallreduce 8", "MPI_Ireduce 8", kWord));
  Ok(saver.Wait());
  PlanCache cache;
  Calls foreground;
  for (int64_t step = 3; step <= 4; ++step) {
    foreground = CallsOf([&] {
      Ok(Save(comm_, run(), step, values_.MakeState(),
              {.transfer = Transfer::kIndependent, .cache = &cache}));
    });
  }
  EXPECT_EQ(foreground.size(), 11);
  EXPECT_EQ(Calls(begun.begin(), begun.begin() + 5),
            Calls(foreground.begin(), foreground.begin() + 5));
  EXPECT_LT(begun.size() + kEnd.size(), foreground.size());
}

TEST_F(AsyncMessagesTest, Poll) {
  AsyncSaver saver = Warm(kSlow);
  OfBegin(saver, 2);
  std::vector<Calls> polls = OfPolls(saver);
  EXPECT_GT(polls.size(), 10);
  EXPECT_THAT(polls.back(), ElementsAreArray(kEnd));
  polls.pop_back();
  EXPECT_THAT(polls, Each(ElementsAre(kWord)));
  // Nothing is under way.
  EXPECT_THAT(CallsOf([&] { Ok(saver.Poll()); }), IsEmpty());
  EXPECT_THAT(CallsOf([&] { Ok(saver.Wait()); }), IsEmpty());
}

// A word every 20 ms.
TEST_F(AsyncMessagesTest, Wait) {
  AsyncSaver saver = Warm(kSlow);
  OfBegin(saver, 2);
  Calls waited = CallsOf([&] { Ok(saver.Wait()); });
  ASSERT_GT(waited.size(), 4);
  EXPECT_THAT(Calls(waited.end() - 2, waited.end()), ElementsAreArray(kEnd));
  waited.resize(waited.size() - 2);
  EXPECT_THAT(waited, Each(kWord));
}

TEST_F(AsyncMessagesTest, WaitForSnapshot) {
  AsyncSaver saver = Warm({.snapshot = SnapshotMode::kLazy});
  EXPECT_THAT(OfBegin(saver, 2),
              ElementsAre("MPI_Iallreduce 32", "MPI_Ibcast 64",
                          "MPI_Iallreduce 8", "MPI_Iallreduce 16", kWord));
  const auto wait = [&] {
    return CallsOf(
        [&] { EXPECT_EQ(saver.WaitForSnapshot(), absl::OkStatus()); });
  };
  EXPECT_THAT(wait(), ElementsAre(kWord, "MPI_Ireduce 8", kWord));
  EXPECT_THAT(wait(), IsEmpty());
  Ok(saver.Wait());
}

// A manager: the word that there is anyway, whether or not a save is under way,
// but in the call in which one ends.
class ManagerAsyncMessagesTest : public ManagerTest {};

TEST_F(ManagerAsyncMessagesTest, ShouldSave) {
  constexpr int64_t kKept = 2;
  auto manager = Ok(Manage({.save_policy = {.save_interval_steps = 100},
                            .async = kSlow,
                            .retention = {.max_to_keep = kKept}}));
  int64_t ends = 0;
  for (int64_t step = 0; step < 400; ++step) {
    bool is_due = false;
    const std::optional<int64_t> before = manager.LatestStep();
    const Calls asked = CallsOf([&] { is_due = Ok(manager.ShouldSave(step)); });
    if (manager.LatestStep() == before) {
      EXPECT_THAT(asked, ElementsAre(kWord));
    } else {
      ++ends;
      std::vector<::testing::Matcher<std::string>> expected = {
          "MPI_Iallreduce 32", StartsWith("MPI_Iallreduce"), "MPI_Ibcast 64"};
      // The number of a deleted step needs a second broadcast.
      if (ends > kKept) expected.push_back(StartsWith("MPI_Ibcast"));
      expected.insert(expected.end(), 2, kWord);
      EXPECT_THAT(asked, ElementsAreArray(expected));
    }
    if (!is_due) {
      Nap();
      continue;
    }
    const Calls saved = CallsOf([&] { Ok(SaveStep(manager, step)); });
    if (step == 0) continue;  // has no plan yet
    EXPECT_THAT(saved, ElementsAre("MPI_Iallreduce 24", "MPI_Ibcast 64", kWord,
                                   "MPI_Iallreduce 16", "MPI_Iallreduce 32",
                                   "MPI_Ibcast 64", kWord, "MPI_Iallreduce 16",
                                   kWord, StartsWith("MPI_Ireduce "), kWord));
  }
  EXPECT_EQ(ends, 4);
  Ok(manager.Wait());
}

}  // namespace
}  // namespace belay::testing
