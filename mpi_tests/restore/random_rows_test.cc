// Random states on random ranks, compared with dense arrays.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "belay/async_saver.h"
#include "belay/checkpoint.h"
#include "belay/checkpoint_reader.h"
#include "belay/reader/copy_checkpoint.h"
#include "random_arrays.h"
#include "random_case.h"
#include "values.h"

namespace belay::random_rows_test {
namespace {

using testing::Arrays;
using testing::DrawArray;
using testing::DrawSaveOptions;
using testing::Group;
using testing::HasCasts;
using ::testing::HasSubstr;
using testing::Mistake;
using testing::OnceIn;
using testing::Random;
using testing::RandomArray;
using testing::Restoring;
using testing::Seed;
using testing::SumOverRanks;
using testing::ToText;
using testing::Uniform;

// A number of the environment, or another one.
uint32_t FromEnvironment(const char* name, uint32_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : static_cast<uint32_t>(std::atoi(text));
}

class RandomRowsTest : public testing::CheckpointTest {
 protected:
  Group DrawGroup(Random& same) const {
    const auto ranks = static_cast<int>(Uniform(1, size_, same));
    std::vector<int> order(size_);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), same);
    const bool is_in = std::find(order.begin(), order.begin() + ranks, rank_) !=
                       order.begin() + ranks;
    Group group{.comm = *comm_.Split(is_in ? 0 : -1), .ranks = ranks};
    if (is_in) group.rank = group.comm.rank();
    return group;
  }

  // Expects that all ranks of a group have this mistake, or none.
  static void ExpectOutcome(const Status& status, const Mistake& mistake,
                            const Group& group) {
    // Equal on all of them if the largest and the smallest are.
    int64_t hash[2] = {INT64_MIN, INT64_MIN};
    if (group.rank >= 0) {
      hash[0] =
          static_cast<int64_t>(std::hash<std::string>()(status.ToString()));
      hash[1] = ~hash[0];
      EXPECT_EQ(status.code(), mistake.code) << status;
      if (!status.ok()) {
        EXPECT_THAT(std::string(status.message()),
                    HasSubstr("\"" + mistake.key + "\""));
      }
    }
    MPI_Allreduce(MPI_IN_PLACE, hash, 2, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD);
    EXPECT_EQ(hash[0], ~hash[1]) << status;
  }

  // Whatever fits into little memory; the rest at once.
  Status SaveInBackground(const Comm& comm, int64_t step, const State& state,
                          const SaveOptions& options) const {
    AsyncSaver saver(comm, {.max_staging_bytes = 1000});
    const auto pending = saver.Save(run(), step, state, options);
    return pending.ok() ? saver.Close() : pending.status();
  }

  // Saves the arrays as they were drawn last, or with the mistake.
  void SaveArrays(const Arrays& arrays, const Group& group, int64_t step,
                  const State& state, const SaveOptions& options,
                  const Mistake& mistake) {
    Status status;
    if (group.rank >= 0) {
      for (const auto& array : arrays) array->Fill();
      status = in_background_
                   ? SaveInBackground(group.comm, step, state, options)
                   : Save(group.comm, run(), step, state, options).status();
    }
    ExpectOutcome(status, mistake, group);
    if (group.rank != 0 || !status.ok()) return;
    const auto reader = CheckpointReader::Open(StepFile(step, ""));
    EXPECT_TRUE(reader.ok()) << reader.status();
    for (const auto& array : arrays) {
      if (!reader.ok()) break;
      EXPECT_EQ(array->CheckStored(*reader), "") << array->key();
    }
  }

  // Has one of the arrays make a mistake.
  void SaveWithMistake(const Arrays& arrays, const Group& group, int64_t step,
                       SaveOptions options, Random& same) {
    RandomArray& array = *arrays[Uniform(0, std::ssize(arrays) - 1, same)];
    if (array.DrawMistake(same)) {
      SCOPED_TRACE("with a mistake of " + array.key());
      State state;
      for (const auto& one : arrays) one->AddTo(state);
      options.check_replicas = true;
      SaveArrays(arrays, group, step, state, options,
                 {absl::StatusCode::kInvalidArgument, array.key()});
    }
    array.EndMistake();
  }

  // Restores the arrays of a step on a group, some of them twice.
  void RestoreArrays(const Arrays& arrays, const Group& group,
                     const std::string& dir, int64_t step, uint32_t seed,
                     bool may_fail) const {
    Restoring restoring(arrays, group, saved_ranks_, step, has_casts_, seed);
    restoring.AddAll(may_fail);
    SCOPED_TRACE(restoring.ToString());
    Status status;
    if (group.rank >= 0) {
      status =
          Restore(group.comm, dir, step, restoring.state(), restoring.options())
              .status();
    }
    ExpectOutcome(status, restoring.mistake(), group);
    if (status.ok()) restoring.Check();
  }

  // Restores a step once or twice, perhaps with a mistake first.
  void RestoreStep(const Arrays& arrays, const std::string& dir, int64_t step,
                   Random& same) const {
    for (int64_t times = Uniform(1, 2, same); times > 0; --times) {
      Group group = DrawGroup(same);
      if (OnceIn(4, same)) {
        RestoreArrays(arrays, group, dir, step, Seed(same), true);
      }
      RestoreArrays(arrays, group, dir, step, Seed(same), false);
      EXPECT_EQ(group.comm.Close(), absl::OkStatus());
    }
  }

  // Restores a step by the state that has saved it.
  void RestoreBySavedState(const Arrays& arrays, const Group& group,
                           int64_t step, const State& state,
                           Random& same) const {
    SCOPED_TRACE("by the state that has saved step " + std::to_string(step));
    Random own(Seed(same) + static_cast<uint32_t>(group.rank));
    Status status;
    if (group.rank >= 0) {
      for (const auto& array : arrays) array->Spoil(step - 1, own);
      const RestoreOptions options{.allow_dtype_cast = true};
      status = Restore(group.comm, run(), step, state, options).status();
      for (const auto& array : arrays) {
        EXPECT_EQ(array->CheckOwn(step - 1), "") << array->key();
      }
    }
    ExpectOutcome(status, {}, group);
  }

  // The same by way of a copy, which other ranks make.
  void RestoreCopy(const Arrays& arrays, int64_t step, Random& same) const {
    const std::string to = dir_.File("copy");
    Group group = DrawGroup(same);
    CopyOptions options;
    options.save = DrawSaveOptions({}, same);
    SCOPED_TRACE("a copy: " + ToText(options.save));
    Status status;
    if (group.rank >= 0) {
      status =
          CopyCheckpoint(group.comm, run(), step, to, {}, options).status();
    }
    ExpectOutcome(status, {}, group);
    EXPECT_EQ(group.comm.Close(), absl::OkStatus());
    if (SumOverRanks(status.ok() ? 0 : 1) > 0) return;
    RestoreStep(arrays, to, step, same);
  }

  void RunCase(uint32_t seed) {
    Random same(seed + 1000003 * static_cast<uint32_t>(size_));
    Group group = DrawGroup(same);
    saved_ranks_ = group.ranks;
    Arrays arrays;
    const bool is_nested = OnceIn(2, same);
    const std::string below = is_nested ? "a/" : "";
    const std::string keys[] = {"a",   below + "x", is_nested ? "a/x/1" : "y/1",
                                "b.*", "b c",       "(d)"};
    for (int64_t n = Uniform(1, 6, same), i = 0; i < n; ++i) {
      arrays.push_back(DrawArray(keys[i], group.rank, group.ranks, same));
    }
    State state;
    for (const auto& array : arrays) array->AddTo(state);
    PlanCache cache;
    SaveOptions options = DrawSaveOptions(arrays, same);
    if (!OnceIn(4, same)) options.cache = &cache;
    has_casts_ = HasCasts(options);
    in_background_ = OnceIn(3, same);
    const int64_t steps = Uniform(1, 3, same);
    for (int64_t step = 1; step <= steps; ++step) {
      for (const auto& array : arrays) array->DrawStep(same);
      SCOPED_TRACE(DescriptionOf(arrays, group, step, options));
      if (OnceIn(4, same)) SaveWithMistake(arrays, group, step, options, same);
      SaveArrays(arrays, group, step, state, options, {});
      if (AnyFailed()) return;
      if (!OnceIn(3, same)) continue;
      RestoreBySavedState(arrays, group, Uniform(1, step, same), state, same);
    }
    SCOPED_TRACE(DescriptionOf(arrays, group, steps, options));
    for (int64_t step = 1; step <= steps; ++step) {
      RestoreStep(arrays, run(), step, same);
      if (OnceIn(6, same)) RestoreCopy(arrays, step, same);
    }
    EXPECT_EQ(group.comm.Close(), absl::OkStatus());
  }

  static bool AnyFailed() { return SumOverRanks(HasFailure() ? 1 : 0) > 0; }

 private:
  static std::string DescriptionOf(const Arrays& arrays, const Group& group,
                                   int64_t step, const SaveOptions& options) {
    std::string text =
        absl::StrCat("save step ", step, " on ", group.ranks, " ranks, cache ",
                     options.cache != nullptr, ", ", ToText(options));
    for (const auto& array : arrays) {
      absl::StrAppend(&text, "\n  ", array->ToString());
    }
    return text;
  }

  int saved_ranks_ = 0;
  bool has_casts_ = false;
  bool in_background_ = false;
};

// BELAY_RANDOM_ROUNDS cases, the first with the seed BELAY_RANDOM_SEED: what is
// stored, and what any ranks restore of it, equals dense arrays that were made
// without the library; nothing else is written; and a mistake is the same error
// on all ranks.
TEST_F(RandomRowsTest, AnyStateOnAnyRanks) {
  const uint32_t first = FromEnvironment("BELAY_RANDOM_SEED", 1);
  const uint32_t rounds = FromEnvironment("BELAY_RANDOM_ROUNDS", 60);
  for (uint32_t seed = first; seed < first + rounds; ++seed) {
    SCOPED_TRACE(absl::StrCat("BELAY_RANDOM_SEED=", seed));
    RunCase(seed);
    if (AnyFailed()) return;
  }
}

}  // namespace
}  // namespace belay::random_rows_test
