
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <typeinfo>
#include <utility>

#include "absl/strings/str_cat.h"
#include "model_testing.h"
#include "plan/save_planner.h"
#include "plan_text.h"

namespace belay::group_files_test {
namespace {

using ::testing::ElementsAre;

using Pieces = std::vector<ShardableTensor>;

// Every piece in a group of its own.
ShardingPolicy GroupPerPiece() {
  return {.description = "one group per piece",
          .parameters = {},
          .group = [](const Pieces& pieces) {
            std::vector<ShardGroup> groups;
            for (const ShardableTensor& piece : pieces) {
              groups.push_back({piece});
            }
            return groups;
          }};
}

TEST(MakesOneGroupTest, OnlyTheDefaultIsKnownToDoSo) {
  ShardingPolicy policy = ShardByTask();
  EXPECT_TRUE(MakesOneGroup(policy));
  // By a name that is the same in a program and in the library.
  EXPECT_EQ(policy.group.target_type(), typeid(GroupByTask));
  EXPECT_TRUE(MakesOneGroup(SavePlanOptions().sharding_policy));
  EXPECT_FALSE(MakesOneGroup(MaxShardSize(INT64_MAX)));
  // A name is no proof.
  policy.group = [](const Pieces& pieces) {
    return std::vector<ShardGroup>{pieces};
  };
  EXPECT_FALSE(MakesOneGroup(policy));
  policy.group = nullptr;
  EXPECT_FALSE(MakesOneGroup(policy));
}

// Rank r of node r / 2 has the first `counts[r]` groups.
struct Numbered {
  SavePlan plan;
  std::vector<WritePiece> pieces;

  Numbered(const std::vector<int32_t>& counts, FileLayout layout) {
    std::vector<int32_t> nodes;
    plan.file_layout = layout;
    for (size_t i = 0; i < counts.size(); ++i) {
      const auto rank = static_cast<int32_t>(i);
      nodes.push_back(rank / 2);
      for (int32_t group = counts[i]; group-- > 0;) {
        pieces.push_back({.rank = rank, .group = group});
      }
    }
    EXPECT_EQ(NumberFiles(nodes, plan, pieces), absl::OkStatus());
  }

  // "team/creator/writers" of every file.
  std::vector<std::string> Files() const {
    std::vector<std::string> texts;
    for (const StoredFile& file : plan.files) {
      texts.push_back(
          absl::StrCat(file.team, "/", file.creator, "/", file.num_writers));
    }
    return texts;
  }

  // The file of group 0 of each rank, -1 for none.
  std::vector<int32_t> FirstFiles() const {
    std::vector<int32_t> files(plan.teams.size(), -1);
    for (const WritePiece& piece : pieces) {
      if (piece.group == 0) files[piece.rank] = piece.file;
    }
    return files;
  }
};

TEST(NumberFilesTest, SharedFilesAreThoseOfTheGroups) {
  const Numbered made({1, 0, 3, 2}, FileLayout::kShared);
  EXPECT_THAT(made.Files(), ElementsAre("0/1/3", "0/2/2", "0/3/1"));
  EXPECT_THAT(made.plan.teams, ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(made.FirstFiles(), ElementsAre(0, -1, 0, 0));
  EXPECT_EQ(made.plan.files[2].name, "data_00002_of_00003.h5");
}

TEST(NumberFilesTest, CreatorsOfSharedFilesTakeTurns) {
  const Numbered made({5, 0, 7}, FileLayout::kShared);
  std::vector<int32_t> creators;
  for (const StoredFile& file : made.plan.files) {
    creators.push_back(file.creator);
  }
  EXPECT_THAT(creators, ElementsAre(1, 2, 0, 1, 2, 0, 1));
}

TEST(NumberFilesTest, NodesHaveFilesOfTheirOwn) {
  const Numbered made({0, 2, 1, 0, 0, 0, 3, 2}, FileLayout::kPerNode);
  EXPECT_THAT(made.Files(), ElementsAre("0/1/1", "0/1/1", "1/2/1", "2/6/2",
                                        "2/7/2", "2/6/1"));
  EXPECT_THAT(made.plan.teams, ElementsAre(-1, 0, 1, -1, -1, -1, 2, 2));
  EXPECT_THAT(made.FirstFiles(), ElementsAre(-1, 0, 2, -1, -1, -1, 3, 3));
}

TEST(NumberFilesTest, TasksHaveFilesOfTheirOwn) {
  const Numbered made({2, 0, 1, 2}, FileLayout::kPerTask);
  EXPECT_THAT(made.Files(),
              ElementsAre("0/0/1", "0/0/1", "1/2/1", "2/3/1", "2/3/1"));
  EXPECT_THAT(made.plan.teams, ElementsAre(0, -1, 1, 2));
  EXPECT_THAT(made.FirstFiles(), ElementsAre(0, -1, 2, 3));
  EXPECT_EQ(FindTeamFiles(made.plan, 2), std::pair(3, 5));
  EXPECT_EQ(FindTeamFiles(made.plan, -1), std::pair(0, 0));
}

TEST(NumberFilesTest, NothingToWrite) {
  const Numbered made({0, 0}, FileLayout::kShared);
  EXPECT_THAT(made.Files(), ElementsAre());
  EXPECT_THAT(made.plan.teams, ElementsAre(-1, -1));
}

TEST(NumberFilesTest, TooManyFilesAreRefused) {
  std::vector<WritePiece> pieces = {{.rank = 0, .group = 1 << 20}};
  SavePlan plan;
  EXPECT_EQ(NumberFiles({0}, plan, pieces),
            absl::InvalidArgumentError(
                "plan: the groups of the sharding policy make too many data "
                "files (need at most 1048576, found 1048577)"));
  pieces[0].group = (1 << 20) - 1;
  EXPECT_EQ(NumberFiles({0}, plan, pieces), absl::OkStatus());
}

// What the datasets of a plan are: file, group, task, box and chunk.
std::vector<std::string> Datasets(const SavePlan& plan) {
  std::vector<std::string> texts;
  for (const StoredDataset& dataset : plan.datasets) {
    texts.push_back(absl::StrCat(
        plan.arrays[dataset.array].key, " file ", dataset.file, " group ",
        dataset.group, " task ", dataset.task, " box ", BoxText(dataset.box),
        dataset.chunk.empty() ? "" : " chunk ", ShapeText(dataset.chunk)));
  }
  return texts;
}

// An array of bytes in columns of 4 over the ranks.
std::vector<RankShards> Columns(int64_t rows, int64_t num_ranks) {
  std::vector<RankShards> ranks(num_ranks);
  const StoredArray array{"w", DType::kU8, {rows, 4 * num_ranks}, 0};
  for (int64_t i = 0; i < num_ranks; ++i) {
    ranks[i].shards.push_back(InfoOf(array, {{0, 4 * i}, {rows, 4}}));
  }
  return ranks;
}

TEST(GroupedSaveTest, PiecesThatFillABoxShareADataset) {
  SavePlanOptions options{.sharding_policy = MaxShardSize(8)};
  SavePlan plan = PlanSave(Columns(5, 3), options).value();
  EXPECT_THAT(Datasets(plan),
              ElementsAre("w file 0 group 0 task -1 box 0,2:0,12 chunk [2, 4]",
                          "w file 1 group 1 task -1 box 2,2:0,12 chunk [2, 4]",
                          "w file 2 group 2 task -1 box 4,1:0,12[]"));
  options.array_layout = ArrayLayout::kCanonical;
  plan = PlanSave(Columns(5, 3), options).value();
  EXPECT_THAT(Datasets(plan),
              ElementsAre("w file 0 group 0 task -1 box 0,2:0,12[]",
                          "w file 1 group 1 task -1 box 2,2:0,12[]",
                          "w file 2 group 2 task -1 box 4,1:0,12[]"));
}

TEST(GroupedSaveTest, PiecesThatLeaveAGapHaveDatasetsOfTheirOwn) {
  std::vector<RankShards> ranks = Columns(5, 2);
  // Rank 1 has something before, so that its first group takes fewer rows.
  ranks[1].shards.insert(ranks[1].shards.begin(),
                         InfoOf({"a", DType::kU8, {4}, 0}, {{0}, {4}}));
  const SavePlan plan =
      PlanSave(ranks, {.sharding_policy = MaxShardSize(12)}).value();
  EXPECT_THAT(Datasets(plan),
              ElementsAre("a file 0 group 0 task 1 box 0,4[]",
                          "w file 0 group 0 task 0 box 0,3:0,4[]",
                          "w file 0 group 0 task 1 box 0,2:4,4[]",
                          "w file 1 group 1 task 1 box 2,3:4,4[]",
                          "w file 1 group 1 task 0 box 3,2:0,4[]"));
}

TEST(GroupedSaveTest, OneGroupOfAnotherPolicyIsOneFile) {
  const SavePlan plan =
      PlanSave(Columns(5, 1), {.sharding_policy = MaxShardSize(100)}).value();
  EXPECT_THAT(Datasets(plan),
              ElementsAre("w file 0 group 0 task 0 box 0,5:0,4[]"));
  const SavePlan by_default = PlanSave(Columns(5, 1), {}).value();
  EXPECT_EQ(Datasets(by_default), Datasets(plan));
}

// The files of a team are written one after the other.
TEST(GroupedSaveTest, RoundsAreCountedPerFile) {
  SavePlanOptions options{.sharding_policy = MaxShardSize(8), .round_bytes = 4};
  SavePlan plan = PlanSave(Columns(5, 3), options).value();
  EXPECT_EQ(plan.files[0].rounds, 2);
  EXPECT_EQ(plan.files[1].rounds, 2);
  EXPECT_EQ(plan.files[2].rounds, 1);
  EXPECT_EQ(plan.rounds, 5);
  std::vector<RankWrites> files = TakeWritesByFile(plan, 1);
  ASSERT_EQ(files.size(), 3u);
  EXPECT_EQ(files[0].bytes, 8);
  EXPECT_EQ(files[2].bytes, 4);
  EXPECT_EQ(files[1].orders[0].dataset, 0);
  EXPECT_EQ(files[1].orders[0].round, 0);
  EXPECT_EQ(files[1].orders[1].round, 1);
  EXPECT_TRUE(plan.ranks[1].orders.empty());
}

TEST(GroupedSaveTest, APolicySeesPiecesAsTheirRankListedThem) {
  const StoredArray large{"large", DType::kF64, {4, 2}, 0};
  const StoredArray text{"a text", DType::kString, {}, 3};
  const StoredArray none{"none", DType::kF64, {0}, 0};
  std::vector<RankShards> ranks(3);
  ranks[2].shards = {InfoOf(large, {{2, 0}, {2, 2}}), InfoOf(none, {{0}, {0}}),
                     InfoOf(text, {})};
  ranks[0].shards = {InfoOf(large, {{1, 0}, {1, 2}}),
                     InfoOf(large, {{0, 0}, {1, 2}})};
  std::vector<std::string> seen;
  const ShardingPolicy policy{
      .description = "looks",
      .group = [&](const Pieces& pieces) -> StatusOr<Grouping> {
        for (const ShardableTensor& piece : pieces) {
          seen.push_back(absl::StrCat(DeviceText(piece.device), " ", piece.key,
                                      " ", DTypeName(piece.dtype).data(), " ",
                                      ShapeText(piece.global_shape), " ",
                                      BoxText(piece.box), " ", piece.bytes));
        }
        Grouping grouping({pieces});
        grouping.warnings.push_back(absl::StrCat("saw ", pieces.size()));
        return grouping;
      }};
  const SavePlan plan = PlanSave(ranks, {.sharding_policy = policy}).value();
  const std::string task = "/job:belay/replica:0/task:";
  EXPECT_THAT(seen,
              ElementsAre(task + "0/device:CPU:0 large f64 [4, 2] 1,1:0,2 16",
                          task + "0/device:CPU:0 large f64 [4, 2] 0,1:0,2 16",
                          task + "2/device:CPU:0 large f64 [4, 2] 2,2:0,2 32",
                          task + "2/device:CPU:0 a text string []  3"));
  EXPECT_THAT(plan.warnings, ElementsAre("saw 2", "saw 2"));
}

// One call for a rank, whatever its pieces are copies of.
TEST(GroupedSaveTest, APolicySeesDeviceAndNodeOfTheRank) {
  const StoredArray a{"a", DType::kF32, {4}, 0}, b{"b", DType::kF32, {2}, 0};
  std::vector<RankShards> ranks(4);
  for (int rank = 0; rank < 4; ++rank) {
    ranks[rank].node = rank / 2 * 2;
    ranks[rank].job = rank < 3 ? "train" : "eval";
    const auto layout = Layout::Parse("[x] on x=2,y=2");
    ShardInfo laid_out = InfoOf(a, *layout->LocalBox({4}, rank));
    laid_out.replica = layout->Replica(rank);
    laid_out.layout = layout->ToString();
    // Of both replicas, only one writes.
    if (rank % 3 == 0) ranks[rank].shards.push_back(laid_out);
    if (rank == 3) {
      ranks[rank].shards.push_back(InfoOf(b, WholeBox({2})));
      ranks[rank].shards.back().device = "/device:GPU:5";
    }
  }
  std::vector<std::string> seen;
  const ShardingPolicy policy{
      .description = "looks",
      .group = [&](const Pieces& pieces) -> StatusOr<Grouping> {
        seen.emplace_back();
        for (const ShardableTensor& piece : pieces) {
          absl::StrAppend(&seen.back(), piece.key, " ",
                          DeviceText(piece.device), " ", piece.node, ";");
        }
        return Grouping({pieces});
      }};
  ASSERT_EQ(PlanSave(ranks, {.sharding_policy = policy}).status(),
            absl::OkStatus());
  EXPECT_THAT(seen,
              ElementsAre("a /job:train/replica:0/task:0/device:CPU:0 0;",
                          "a /job:eval/replica:1/task:3/device:CPU:0 2;"
                          "b /job:eval/replica:0/task:3/device:GPU:5 2;"));
}

TEST(GroupedSaveTest, APolicyThatFailsFailsThePlan) {
  const ShardingPolicy policy{.description = "no",
                              .group = [](const Pieces&) -> StatusOr<Grouping> {
                                return absl::OutOfRangeError("never");
                              }};
  EXPECT_EQ(PlanSave(Columns(2, 2), {.sharding_policy = policy}).status(),
            absl::OutOfRangeError(
                "policy \"no\": task \"/job:belay/replica:0/task:0\": never"));
  // What was listed is looked at first.
  std::vector<RankShards> gap = Columns(2, 2);
  gap[0].shards.clear();
  EXPECT_TRUE(absl::IsInvalidArgument(
      PlanSave(gap, {.sharding_policy = policy}).status()));
}

// Bytes of each group of each task.
std::map<std::pair<int32_t, int32_t>, int64_t> BytesOfGroups(
    const SavePlan& plan) {
  std::map<std::pair<int32_t, int32_t>, int64_t> bytes;
  for (size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    for (const WriteOrder& order : plan.ranks[rank].orders) {
      const StoredDataset& dataset = plan.datasets[order.dataset];
      bytes[{static_cast<int32_t>(rank), dataset.group}] +=
          NumElements(order.box.shape) *
          IoElementSize(plan.arrays[dataset.array].dtype);
    }
  }
  return bytes;
}

TEST(GroupedSaveTest, RandomGroupsHoldEverythingOnce) {
  Random random(7);
  for (int i = 0; i < 400; ++i) {
    const std::vector<StoredArray> arrays = RandomArrays(random);
    const int num_ranks = static_cast<int>(Uniform(1, 12, random));
    const std::vector<RankShards> ranks = RandomCut(arrays, num_ranks, random);
    const int64_t limit = Uniform(16, 5000, random);
    const bool by_size = Uniform(0, 1, random) == 0;
    const SavePlanOptions options{
        .file_layout = FileLayout{static_cast<uint8_t>(i % 3)},
        .array_layout = ArrayLayout{static_cast<uint8_t>(i % 2)},
        .sharding_policy = by_size ? MaxShardSize(limit) : GroupPerPiece(),
        .round_bytes = Uniform(16, 3000, random)};
    const StatusOr<SavePlan> plan = PlanSave(ranks, options);
    ASSERT_TRUE(plan.ok()) << plan.status();
    SCOPED_TRACE(ToString(*plan, 1000));
    const SimulatedFiles files = SimulateSave(*plan, ranks);
    ASSERT_NO_FATAL_FAILURE(ExpectContent(*plan, files));
    int64_t bytes = 0, need = 0;
    for (const StoredArray& array : arrays) need += ArrayBytes(array);
    for (const auto& [group, sum] : BytesOfGroups(*plan)) {
      bytes += sum;
      const bool has_text = plan->warnings.size() > 0;
      ASSERT_TRUE(!by_size || has_text || sum <= limit) << sum;
    }
    ASSERT_EQ(bytes, need);
    // Each file has what its place says, and no other.
    std::set<int32_t> used;
    for (const StoredDataset& dataset : plan->datasets) {
      const int32_t team = plan->files[dataset.file].team;
      ASSERT_EQ(dataset.file, FindTeamFiles(*plan, team).first + dataset.group);
      used.insert(dataset.file);
    }
    ASSERT_EQ(used.size(), plan->files.size());
  }
}

}  // namespace
}  // namespace belay::group_files_test
