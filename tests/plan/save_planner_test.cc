#include "plan/save_planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "core/checksum.h"
#include "model_testing.h"
#include "plan_text.h"

namespace belay::save_planner_test {
namespace {

using ::testing::ElementsAre;

const StoredArray kVector{"v", DType::kU8, {12}, 0};

std::vector<RankShards> FourRows() {
  std::vector<RankShards> ranks(4);
  for (int64_t i = 0; i < 4; ++i) {
    ranks[i].node = static_cast<int32_t>(i / 2);
    ranks[i].shards.push_back(InfoOf(kVector, {{3 * i}, {3}}));
  }
  return ranks;
}

StoredFile File(std::string name, int32_t creator, int32_t writers,
                int32_t team = 0) {
  return {.name = std::move(name),
          .creator = creator,
          .num_writers = writers,
          .team = team,
          .rounds = 1};
}

std::string TextOf(const StatusOr<SavePlan>& plan) {
  return plan.ok() ? ToString(*plan, 1000) : plan.status().ToString();
}

TEST(PlanSaveTest, SharedFileHasOneDatasetPerArray) {
  const SavePlan plan = PlanSave(FourRows(), {}).value();
  EXPECT_THAT(plan.arrays, ElementsAre(kVector));
  EXPECT_THAT(plan.datasets, ElementsAre(StoredDataset{
                                 .array = 0, .file = 0, .box = {{0}, {12}}}));
  EXPECT_THAT(plan.files, ElementsAre(File("data_00000_of_00001.h5", 1, 4)));
  EXPECT_THAT(plan.calls, ElementsAre(1));
  EXPECT_EQ(plan.rounds, 1);
  EXPECT_EQ(plan.num_blocks, 1);
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(plan.teams[rank], 0);
    EXPECT_EQ(plan.ranks[rank].bytes, 3);
  }
}

TEST(PlanSaveTest, FilePerNodeAndPerTask) {
  SavePlan plan =
      PlanSave(FourRows(), {.file_layout = FileLayout::kPerNode}).value();
  EXPECT_THAT(plan.files, ElementsAre(File("data_00000_of_00002.h5", 0, 2, 0),
                                      File("data_00001_of_00002.h5", 2, 2, 1)));
  plan = PlanSave(FourRows(), {.file_layout = FileLayout::kPerTask}).value();
  EXPECT_THAT(plan.files, ElementsAre(File("data_00000_of_00004.h5", 0, 1, 0),
                                      File("data_00001_of_00004.h5", 1, 1, 1),
                                      File("data_00002_of_00004.h5", 2, 1, 2),
                                      File("data_00003_of_00004.h5", 3, 1, 3)));
  EXPECT_EQ(
      plan.datasets[2],
      (StoredDataset{.array = 0, .file = 2, .box = {{6}, {3}}, .task = 2}));
}

// A canonical file depends on no rank, and a layout says more.
TEST(PlanSaveTest, ASharedDatasetOfOneWriterNamesIt) {
  const StoredArray alone{"alone", DType::kF32, {12}};
  const StoredArray cut{"cut", DType::kF32, {12}};
  const StoredArray empty{"empty", DType::kF32, {0}};
  const StoredArray on_mesh{"on mesh", DType::kF32, {12}};
  std::vector<RankShards> ranks(3);
  ranks[2].shards.push_back(InfoOf(alone, {{0}, {12}}));
  for (int rank = 0; rank < 2; ++rank) {
    ranks[rank].shards.push_back(InfoOf(cut, {{6 * rank}, {6}}));
  }
  ranks[1].shards.push_back(InfoOf(empty, {{0}, {0}}));
  ranks[1].shards.push_back(InfoOf(on_mesh, {{0}, {12}}));
  ranks[1].shards.back().layout = "[-] on x=3";
  const auto tasks = [&](ArrayLayout layout) {
    const SavePlan plan = PlanSave(ranks, {.array_layout = layout}).value();
    std::vector<std::string> found;
    for (const StoredDataset& dataset : plan.datasets) {
      found.push_back(
          absl::StrCat(plan.arrays[dataset.array].key, " ", dataset.task));
    }
    return found;
  };
  EXPECT_THAT(tasks(ArrayLayout::kAuto),
              ElementsAre("alone 2", "cut -1", "on mesh -1"));
  EXPECT_THAT(tasks(ArrayLayout::kCanonical),
              ElementsAre("alone -1", "cut -1", "on mesh -1"));
}

TEST(PlanSaveTest, ARankThatWritesNothingHasNoFile) {
  std::vector<RankShards> ranks(3);
  ranks[1].shards.push_back(InfoOf(kVector, {{0}, {12}}));
  SavePlan plan =
      PlanSave(ranks, {.file_layout = FileLayout::kPerTask}).value();
  EXPECT_THAT(plan.teams, ElementsAre(-1, 0, -1));
  EXPECT_THAT(plan.files, ElementsAre(File("data_00000_of_00001.h5", 1, 1)));
  // A shared file is made by rank 1, also where that one writes nothing.
  std::swap(ranks[0], ranks[1]);
  plan = PlanSave(ranks, {}).value();
  EXPECT_THAT(plan.files, ElementsAre(File("data_00000_of_00001.h5", 1, 1)));
  EXPECT_THAT(plan.teams, ElementsAre(0, 0, 0));
}

TEST(PlanSaveTest, NothingToWrite) {
  const StoredArray none{"none", DType::kF32, {0, 4}, 0};
  std::vector<RankShards> ranks(2);
  ranks[1].shards.push_back(InfoOf(none, {{0, 0}, {0, 4}}));
  const SavePlan plan = PlanSave(ranks, {}).value();
  EXPECT_THAT(plan.arrays, ElementsAre(none));
  EXPECT_TRUE(plan.datasets.empty());
  EXPECT_TRUE(plan.files.empty());
  EXPECT_EQ(plan.rounds, 0);
  EXPECT_EQ(plan.num_blocks, 0);
  EXPECT_EQ(PlanSave(ListedRanks{}, {}).value().rounds, 0);
}

TEST(PlanSaveTest, ColumnsBecomeChunksUnlessCanonical) {
  const StoredArray array{"a", DType::kF64, {2, 6}, 0};
  std::vector<RankShards> ranks(3);
  for (int64_t i = 0; i < 3; ++i) {
    ranks[i].shards.push_back(InfoOf(array, {{0, 2 * i}, {2, 2}}));
  }
  SavePlan plan = PlanSave(ranks, {}).value();
  EXPECT_EQ(plan.datasets[0].chunk, (Shape{2, 2}));
  EXPECT_EQ(plan.ranks[1].orders[0].extent.box, (Box{{0, 2}, {2, 2}}));
  EXPECT_EQ(plan.ranks[1].orders[0].extent.offset, 32);
  plan = PlanSave(ranks, {.array_layout = ArrayLayout::kCanonical}).value();
  EXPECT_EQ(plan.datasets[0].chunk, Shape{});
  EXPECT_EQ(plan.ranks[1].orders[0].extent.box, (Box{{0, 0}, {2, 6}}));
}

TEST(PlanSaveTest, WorkIsCutIntoRounds) {
  const StoredArray array{"a", DType::kF32, {10, 3}, 0};
  std::vector<RankShards> ranks(1);
  ranks[0].shards.push_back(InfoOf(array, WholeBox({10, 3})));
  const SavePlan plan = PlanSave(ranks, {.round_bytes = 30}).value();
  EXPECT_EQ(plan.rounds, 5);
  EXPECT_THAT(plan.calls, ElementsAre(5));
  EXPECT_EQ(plan.ranks[0].orders[4].box, (Box{{8, 0}, {2, 3}}));
  EXPECT_EQ(plan.ranks[0].orders[4].round, 4);
  EXPECT_EQ(plan.ranks[0].bytes, 120);
}

TEST(PlanSaveTest, BlocksAreNumberedByKey) {
  std::vector<RankShards> ranks(1);
  const StoredArray large{"a", DType::kU8, {kBlockBytes + 1}, 0};
  ranks[0].shards.push_back(InfoOf(kVector, {{0}, {12}}));
  ranks[0].shards.push_back(InfoOf(large, WholeBox(large.shape)));
  const SavePlan plan = PlanSave(ranks, {}).value();
  EXPECT_THAT(plan.arrays, ElementsAre(large, kVector));
  EXPECT_EQ(plan.ranks[0].orders[0].first_block, 0);
  EXPECT_EQ(plan.ranks[0].orders[1].first_block, 2);
  EXPECT_EQ(plan.num_blocks, 3);
}

TEST(PlanSaveTest, BadKeys) {
  std::vector<RankShards> ranks(2);
  ranks[1].shards.push_back({.key = "", .box = {}});
  EXPECT_EQ(PlanSave(ranks, {}).status(),
            absl::InvalidArgumentError("plan \"\": a key must not be empty or "
                                       "hold a NUL byte (listed by rank 1)"));
  ranks[1].shards[0].key = std::string("a\0b", 3);
  EXPECT_EQ(PlanSave(ranks, {}).status(),
            absl::InvalidArgumentError(
                "plan \"a\\000b\": a key must not be empty or hold a NUL byte "
                "(listed by rank 1)"));
  std::string& deep = ranks[1].shards[0].key;
  deep = "a";
  for (int parts = 1; parts < 1001; ++parts) deep += "/a";
  EXPECT_EQ(
      PlanSave(ranks, {}).status(),
      absl::InvalidArgumentError(absl::StrCat(
          "plan \"", deep.substr(0, 100),
          "...\": a key has too many parts "
          "between \"/\" (need at most 1000, found 1001; listed by rank 1)")));
}

TEST(PlanSaveTest, OfSeveralErrorsTheFirstByKey) {
  std::vector<RankShards> ranks = FourRows();
  ranks[0].shards.push_back(InfoOf({"b", DType::kU8, {2}, 0}, Box{{0}, {1}}));
  ranks[2].shards.clear();
  EXPECT_EQ(PlanSave(ranks, {}).status(),
            absl::InvalidArgumentError(
                "plan \"b\": no rank holds box \"1,1\" (need 2 elements of "
                "shape [2], found 1)"));
}

struct Case {
  FileLayout file_layout;
  ArrayLayout array_layout;
};

class RandomSaveTest : public ::testing::TestWithParam<Case> {
 protected:
  SavePlanOptions Options(Random& random) const {
    return {.file_layout = GetParam().file_layout,
            .array_layout = GetParam().array_layout,
            .round_bytes = Uniform(16, 3000, random)};
  }
};

INSTANTIATE_TEST_SUITE_P(
    Layouts, RandomSaveTest,
    testing::Values(Case{FileLayout::kShared, ArrayLayout::kAuto},
                    Case{FileLayout::kShared, ArrayLayout::kCanonical},
                    Case{FileLayout::kPerNode, ArrayLayout::kAuto},
                    Case{FileLayout::kPerTask, ArrayLayout::kAuto}));

// How often each element of each array is written.
std::vector<std::vector<int>> CountWrites(const SavePlan& plan) {
  std::vector<std::vector<int>> counts;
  for (const StoredArray& array : plan.arrays) {
    counts.emplace_back(NumElements(IoShape(array)), 0);
  }
  for (const RankWrites& writes : plan.ranks) {
    for (const WriteOrder& order : writes.orders) {
      const int32_t index = plan.datasets[order.dataset].array;
      const Box whole = WholeBox(IoShape(plan.arrays[index]));
      ForEachRun(order.box, whole, whole, [&](const ElementRun& run) {
        for (int64_t i = 0; i < run.length; ++i) ++counts[index][run.a + i];
      });
    }
  }
  return counts;
}

void ExpectRounds(const SavePlan& plan, int64_t round_bytes) {
  int64_t last_round = -1;
  for (const RankWrites& writes : plan.ranks) {
    std::map<int32_t, int64_t> bytes;
    int64_t total = 0;
    for (const WriteOrder& order : writes.orders) {
      const StoredDataset& dataset = plan.datasets[order.dataset];
      const int64_t size = NumElements(order.box.shape) *
                           IoElementSize(plan.arrays[dataset.array].dtype);
      bytes[order.round] += size;
      total += size;
      last_round = std::max<int64_t>(last_round, order.round);
    }
    for (const auto& [round, sum] : bytes) ASSERT_LE(sum, round_bytes);
    ASSERT_EQ(total, writes.bytes);
  }
  ASSERT_EQ(plan.rounds, last_round + 1);
}

// Orders ascend in the file, and so do the rounds; `calls` is their most.
void ExpectOrder(const SavePlan& plan) {
  std::vector<int32_t> most(plan.datasets.size(), 0);
  for (const RankWrites& writes : plan.ranks) {
    std::map<int32_t, int32_t> calls;
    for (size_t i = 0; i < writes.orders.size(); ++i) {
      const WriteOrder& b = writes.orders[i];
      most[b.dataset] = std::max(most[b.dataset], ++calls[b.dataset]);
      if (i == 0) continue;
      const WriteOrder& a = writes.orders[i - 1];
      ASSERT_LT(std::tie(a.dataset, a.extent.offset, a.box.offset),
                std::tie(b.dataset, b.extent.offset, b.box.offset));
      if (plan.datasets[a.dataset].file == plan.datasets[b.dataset].file) {
        ASSERT_LE(a.round, b.round);
      }
    }
  }
  ASSERT_EQ(plan.calls, most);
}

TEST_P(RandomSaveTest, WritesEveryByteOnce) {
  Random random(1);
  for (int i = 0; i < 400; ++i) {
    const std::vector<StoredArray> arrays = RandomArrays(random);
    const int num_ranks = static_cast<int>(Uniform(1, 24, random));
    const std::vector<RankShards> ranks = RandomCut(arrays, num_ranks, random);
    const SavePlanOptions options = Options(random);
    const StatusOr<SavePlan> plan = PlanSave(ranks, options);
    ASSERT_TRUE(plan.ok()) << plan.status();
    SCOPED_TRACE(TextOf(plan));
    ASSERT_EQ(plan->arrays, arrays);
    for (const auto& counts : CountWrites(*plan)) {
      for (int count : counts) ASSERT_EQ(count, 1);
    }
    ASSERT_NO_FATAL_FAILURE(ExpectContent(*plan, SimulateSave(*plan, ranks)));
    ASSERT_NO_FATAL_FAILURE(ExpectRounds(*plan, options.round_bytes));
    ASSERT_NO_FATAL_FAILURE(ExpectOrder(*plan));
  }
}

TEST_P(RandomSaveTest, SameInputSamePlan) {
  Random random(2);
  for (int i = 0; i < 100; ++i) {
    const std::vector<RankShards> ranks =
        RandomCut(RandomArrays(random), 12, random);
    const SavePlanOptions options = Options(random);
    const StatusOr<SavePlan> plan = PlanSave(ranks, options);
    const StatusOr<SavePlan> again =
        PlanSave(std::vector<RankShards>(ranks), options);
    EXPECT_EQ(TextOf(plan), TextOf(again));
    for (int rank = 0; rank < 12; ++rank) {
      ASSERT_EQ(Encode(plan->ranks[rank]), Encode(again->ranks[rank]));
    }
  }
}

TEST(CanonicalSaveTest, FileDoesNotDependOnTheCut) {
  Random random(3);
  const SavePlanOptions options{.array_layout = ArrayLayout::kCanonical};
  for (int i = 0; i < 1000; ++i) {
    const std::vector<StoredArray> arrays = RandomArrays(random);
    const std::vector<RankShards> serial = RandomCut(arrays, 1, random);
    const SimulatedFiles expected =
        SimulateSave(PlanSave(serial, options).value(), serial);
    const int num_ranks = static_cast<int>(Uniform(2, 24, random));
    const std::vector<RankShards> ranks = RandomCut(arrays, num_ranks, random);
    const SavePlan plan = PlanSave(ranks, options).value();
    const SimulatedFiles files = SimulateSave(plan, ranks);
    ASSERT_EQ(files.bytes, expected.bytes) << ToString(plan, 1000);
    ASSERT_EQ(files.index.datasets, expected.index.datasets);
  }
}

// What no reader would take is not written.
TEST(PlanSaveTest, ChunksHaveALimit) {
  constexpr int64_t kLength = 2 << 20;
  std::vector<RankShards> ranks(1);
  ranks[0].shards.push_back(
      InfoOf({"k", DType::kU8, {kLength}}, WholeBox({kLength})));
  const auto plan = [&](int64_t chunk) {
    return PlanSave(ranks,
                    {.args = {{"k", {.read_chunk_shape = Shape{chunk}}}}})
        .status();
  };
  EXPECT_EQ(plan(2), absl::OkStatus());
  EXPECT_EQ(plan(1), absl::ResourceExhaustedError(
                         "plan: key \"k\": there are too many chunks; save it "
                         "in larger ones (need at most 1048608, found 2097152, "
                         "and 0 before)"));
}

}  // namespace
}  // namespace belay::save_planner_test
