// Sharding policies at the level of files: how many there are, what is in them,
// and that every restore gets the values, whatever the policy did.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "belay/async_saver.h"
#include "belay/checkpoint.h"
#include "belay/checkpoint_reader.h"
#include "policy_fixture.h"

namespace belay::sharding_policy_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::IsSameEverywhere;
using testing::Made;
using testing::Names;
using testing::Ok;
using testing::Pieces;
using testing::Values;

constexpr FileLayout kFileLayouts[] = {
    FileLayout::kShared, FileLayout::kPerNode, FileLayout::kPerTask};

// Every key in a group of its own.
ShardingPolicy GroupPerKey() {
  return {.description = "one group per key",
          .parameters = {},
          .group = [](const Pieces& pieces) -> StatusOr<Grouping> {
            std::map<std::string, ShardGroup> groups;
            for (const ShardableTensor& piece : pieces) {
              groups[piece.key].push_back(piece);
            }
            Grouping grouping;
            for (auto& [key, group] : groups) {
              grouping.groups.push_back(std::move(group));
            }
            return grouping;
          }};
}

class ShardingPolicyTest : public testing::PolicyTest {
 protected:
  // Rank 0 reads every byte and compares it with its checksum, and the files
  // have the names that their number says.
  void ExpectIntact(int64_t step, int64_t files) {
    if (rank_ != 0) return;
    const auto verified = VerifyCheckpoint(StepFile(step, ""));
    ASSERT_TRUE(verified.ok()) << verified.status();
    EXPECT_THAT(verified->damage, ElementsAre());
    std::string names;
    for (int64_t i = 0; i < files; ++i) {
      absl::StrAppendFormat(&names, "data_%05d_of_%05d.h5 ", i, files);
    }
    EXPECT_EQ(Names(StepFile(step, "")), names + "index.h5");
  }
};

// The source's test_CheckpointOption_ShardByTaskPolicy: a file for each task.
TEST_F(ShardingPolicyTest, CheckpointOptionShardByTaskPolicy) {
  Values values;
  values.AddText(absl::StrCat("v", rank_), 7);
  options_.file_layout = FileLayout::kPerTask;
  options_.sharding_policy = ShardByTask();
  EXPECT_EQ(MustSave(values, 1).counters.files, size_);
  ExpectIntact(1, size_);
  ExpectRestores(values, 1, 1);
}

// The source's test_CheckpointOption_MaxShardSizePolicy: two arrays of three
// rows of 8 bytes and a text of 10, at most 10 bytes in a group.
TEST_F(ShardingPolicyTest, CheckpointOptionMaxShardSizePolicy) {
  Values values;
  const std::string name = absl::StrCat("task", rank_, "/");
  values.Add(name + "v0", DType::kI32, {3, 2}, WholeBox({3, 2}));
  values.Add(name + "v1", DType::kF32, {3, 2, 1}, WholeBox({3, 2, 1}));
  values.AddText(name + "v2", 10);
  options_.sharding_policy = MaxShardSize(10);
  int64_t step = 0;
  for (FileLayout layout : kFileLayouts) {
    options_.file_layout = layout;
    // This node is the only one.
    const int64_t files = layout == FileLayout::kPerTask ? 7 * size_ : 7;
    EXPECT_EQ(MustSave(values, ++step).counters.files, files);
    ExpectIntact(step, files);
    ExpectRestores(values, step, step);
  }
}

TEST_F(ShardingPolicyTest, EveryLayoutEveryTransferAnyCut) {
  int64_t step = 0;
  for (FileLayout layout : kFileLayouts) {
    for (Transfer transfer :
         {Transfer::kAuto, Transfer::kCollective, Transfer::kIndependent,
          Transfer::kHdf5, Transfer::kTwoPhase}) {
      for (ArrayLayout arrays : {ArrayLayout::kAuto, ArrayLayout::kCanonical}) {
        SCOPED_TRACE(absl::StrCat("files ", layout, " transfer ", transfer));
        const int64_t limit = 1500 + 37 * step;
        options_.file_layout = layout;
        options_.array_layout = arrays;
        options_.transfer = transfer;
        options_.sharding_policy = MaxShardSize(limit);
        options_.max_bytes_in_flight = step % 2 == 0 ? 4096 : 1 << 20;
        options_.read_back = step % 3 == 0;
        Values values = SomeValues(static_cast<int>(step % 2));
        const SaveResult saved = MustSave(values, ++step);
        EXPECT_EQ(saved.warnings.size(),
                  arrays == ArrayLayout::kCanonical ? 1u : 0u);
        // Some 19,000 bytes over the ranks.
        const int64_t least = layout == FileLayout::kPerTask
                                  ? 19000 / limit
                                  : 19000 / size_ / limit;
        EXPECT_GE(saved.counters.files, std::max<int64_t>(1, least));
        ExpectIntact(step, saved.counters.files);
        ExpectRestores(values, step, step);
        Values others = SomeValues(static_cast<int>(step % 2));
        ExpectRestores(others, step, step);
      }
    }
  }
}

// Rank r has r + 1 keys, so it has r + 1 groups.
TEST_F(ShardingPolicyTest, RanksMayHaveDifferentNumbersOfGroups) {
  Values values;
  for (int i = 0; i <= rank_; ++i) {
    const std::string key = absl::StrCat("task", rank_, "/", i);
    values.Add(key, DType::kU16, {5}, {{0}, {5}});
  }
  options_.sharding_policy = GroupPerKey();
  int64_t step = 0;
  for (Transfer transfer : {Transfer::kCollective, Transfer::kIndependent,
                            Transfer::kHdf5, Transfer::kTwoPhase}) {
    for (FileLayout layout : kFileLayouts) {
      options_.transfer = transfer;
      options_.file_layout = layout;
      const int64_t files =
          layout == FileLayout::kPerTask ? size_ * (size_ + 1) / 2 : size_;
      EXPECT_EQ(MustSave(values, ++step).counters.files, files);
      ExpectIntact(step, files);
      ExpectRestores(values, step, step);
    }
  }
}

// One collective call per round and file, whatever the number of arrays.
TEST_F(ShardingPolicyTest, CollectiveCallsAreCounted) {
  Values values;
  for (int i = 0; i < 20; ++i) {
    values.AddCut(absl::StrCat("k", i), DType::kU8, {size_ * 1000}, 0, rank_,
                  size_);
  }
  options_.transfer = Transfer::kCollective;
  MustSave(values, 0);  // the first one finds out which ranks share a node
  options_.sharding_policy = MaxShardSize(5000);
  SaveResult saved = MustSave(values, 1);
  EXPECT_EQ(saved.counters.files, 4);
  EXPECT_EQ(saved.rounds, 4);
  EXPECT_EQ(saved.counters.collective_io, 4);
  const int64_t messages = saved.counters.messages;
  options_.sharding_policy = ShardByTask();
  saved = MustSave(values, 2);
  EXPECT_EQ(saved.counters.collective_io, 1);
  EXPECT_EQ(messages, saved.counters.messages + 3 * 5);
  options_.sharding_policy = MaxShardSize(5000);
  options_.max_bytes_in_flight = 4096;
  saved = MustSave(values, 3);
  EXPECT_EQ(saved.rounds, 8);
  EXPECT_EQ(saved.counters.collective_io, 8);
  ExpectRestores(values, 3, 3);
}

// A policy sees its task's pieces in the order in which they were listed.
TEST_F(ShardingPolicyTest, APolicySeesWhatItsTaskListed) {
  std::vector<std::string> seen;  // rank 0 only
  options_.sharding_policy = Made([&](const Pieces& pieces) {
    std::string text = DeviceText(pieces[0].device);
    for (const ShardableTensor& piece : pieces) {
      absl::StrAppend(&text, " ", piece.key, " ", BoxText(piece.box), " ",
                      piece.bytes);
    }
    seen.push_back(text);
    return std::vector<ShardGroup>{pieces};
  });
  Values values;
  values.AddCut("z", DType::kI16, {2 * size_}, 0, rank_, size_);
  values.AddText(absl::StrCat("text", rank_), 5);
  values.AddCut("a", DType::kI16, {size_, 3}, 0, rank_, size_);
  MustSave(values, 1);
  std::vector<std::string> need;
  for (int task = 0; task < size_ && rank_ == 0; ++task) {
    need.push_back(
        absl::StrFormat("/job:belay/replica:0/task:%d/device:CPU:0 z %d,2 4 "
                        "text%d  5 a %d,1:0,3 6",
                        task, 2 * task, task, task));
  }
  EXPECT_EQ(seen, need);
}

TEST_F(ShardingPolicyTest, WarningsAreEqualOnAllRanks) {
  Values values;
  values.AddText("long", 100);
  values.AddCut("a", DType::kU8, {30 * size_}, 0, rank_, size_);
  PlanCache cache;
  options_.cache = &cache;
  options_.sharding_policy = MaxShardSize(50);
  for (int64_t step : {1, 2}) {
    const SaveResult saved = MustSave(values, step);
    ASSERT_EQ(saved.warnings.size(), 1u);
    EXPECT_THAT(saved.warnings[0], HasSubstr("long"));
    EXPECT_TRUE(IsSameEverywhere(saved.warnings[0]));
    EXPECT_EQ(saved.plan_reused, step == 2);
    EXPECT_EQ(saved.counters.files, 2);
    ExpectRestores(values, step, step);
  }
}

TEST_F(ShardingPolicyTest, APlanIsReusedForAnEqualPolicy) {
  PlanCache cache;
  options_.cache = &cache;
  Values values = SomeValues();
  int64_t step = 0;
  for (FileLayout layout : kFileLayouts) {
    options_.file_layout = layout;
    for (const auto& [limit, reused] :
         {std::pair(900, false), {900, true}, {901, false}, {901, true}}) {
      options_.sharding_policy = MaxShardSize(limit);
      EXPECT_EQ(MustSave(values, ++step).plan_reused, reused) << limit;
      ExpectRestores(values, step, step);
    }
  }
  options_.sharding_policy = ShardByTask();
  EXPECT_FALSE(MustSave(values, ++step).plan_reused);
  EXPECT_TRUE(MustSave(values, ++step).plan_reused);
}

// Groups of at most so many pieces, as `limit` says when the policy is called.
ShardingPolicy UpTo(const size_t* limit) {
  return Made([limit](const Pieces& pieces) -> StatusOr<Grouping> {
    Grouping grouping;
    for (const ShardableTensor& piece : pieces) {
      if (grouping.groups.empty() || grouping.groups.back().size() == *limit) {
        grouping.groups.emplace_back();
      }
      grouping.groups.back().push_back(piece);
    }
    return grouping;
  });
}

// Three keys of each rank, so that a limit of 1 makes three files.
Values ThreeKeys(int rank, int size) {
  Values values;
  for (const char* key : {"a", "b", "c"}) {
    values.AddCut(key, DType::kF64, {size * 16}, 0, rank, size);
  }
  return values;
}

TEST_F(ShardingPolicyTest, OneThatVouchesForNothingIsAskedInEachSave) {
  PlanCache cache;
  options_.cache = &cache;
  Values values = ThreeKeys(rank_, size_);
  size_t limit = 0;
  options_.sharding_policy = UpTo(&limit);
  int64_t step = 0;
  for (const auto& [most, files] :
       {std::pair(3, 1), {1, 3}, {1, 3}, {2, 2}, {3, 1}}) {
    limit = static_cast<size_t>(most);
    const SaveResult saved = MustSave(values, ++step);
    EXPECT_FALSE(saved.plan_reused);
    EXPECT_EQ(saved.counters.files, files) << most;
    ExpectIntact(step, files);
    ExpectRestores(values, step, step);
  }
}

// The program has chosen neither the cache of a Checkpoint nor that of a saver
// in the background.
TEST_F(ShardingPolicyTest, OneThatVouchesForNothingAndCachesOfTheLibrary) {
  const Shape shape = {size_ * 100};
  const Box box = {{rank_ * 100}, {100}};
  std::vector<double> a(100), b(100);
  Checkpoint checkpoint(comm_, {{"a", TrackedValue(shape, box, a)},
                                {"b", TrackedValue(shape, box, b)}});
  State state;
  state.AddPiece("a", shape, box, a);
  state.AddPiece("b", shape, box, b);
  AsyncSaver saver(comm_);
  size_t limit = 0;
  options_.sharding_policy = UpTo(&limit);
  for (int64_t step = 0; step < 6; ++step) {
    limit = step % 2 == 0 ? 100 : 1;
    const SaveResult saved =
        Ok(checkpoint.SaveAs(StepFile(100 + step, ""), options_));
    EXPECT_FALSE(saved.plan_reused);
    EXPECT_EQ(saved.counters.files > 1, limit == 1);
    Ok(saver.Save(run(), step, state, options_));
    const std::optional<SaveResult> ended = Ok(saver.Wait());
    ASSERT_TRUE(ended.has_value());
    EXPECT_FALSE(ended->plan_reused);
    EXPECT_EQ(ended->counters.files > 1, limit == 1);
  }
  EXPECT_TRUE(saver.Close().ok());
}

TEST_F(ShardingPolicyTest, ParametersVouchForAPolicy) {
  PlanCache cache;
  options_.cache = &cache;
  Values values = ThreeKeys(rank_, size_);
  size_t limit = 1;
  int64_t step = 0;
  for (const auto& [version, reused] :
       {std::pair("1", false), {"1", true}, {"2", false}, {"2", true}}) {
    options_.sharding_policy = UpTo(&limit);
    options_.sharding_policy.parameters = {{"version", version}};
    EXPECT_EQ(MustSave(values, ++step).plan_reused, reused);
  }
  // Another function, whatever it is called.
  ShardingPolicy other = GroupPerKey();
  other.description = options_.sharding_policy.description;
  other.parameters = options_.sharding_policy.parameters;
  options_.sharding_policy = other;
  EXPECT_FALSE(MustSave(values, ++step).plan_reused);
  EXPECT_TRUE(MustSave(values, ++step).plan_reused);
}

}  // namespace
}  // namespace belay::sharding_policy_test
