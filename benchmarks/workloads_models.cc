// Planning for large jobs, without values: one process, simulated ranks.

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "belay/arrays/layout.h"
#include "core/wire.h"
#include "plan/coverage.h"
#include "plan/restore_planner.h"
#include "plan/save_planner.h"
#include "plan/stored_arrays.h"
#include "workload/model_spec.h"
#include "workload/rank_state.h"
#include "workload/simulate.h"
#include "workloads.h"

namespace belay::bench {
namespace {

constexpr int64_t kMovesTensors = 1024;
constexpr int64_t kMovesRows = 6144;
constexpr int64_t kMovesColumns = 64;

std::string KeyOf(int64_t tensor) {
  return absl::StrCat("model.layers.", tensor, ".weight");
}

// Makes `tensors` arrays, each partitioned by rows over the ranks. `laid_out`
// says whether the shards have a layout.
std::vector<RankShards> Rows(int64_t tensors, int ranks, bool laid_out) {
  const Shape shape = {kMovesRows, kMovesColumns};
  const Layout layout =
      Layout::Create(Mesh::Create({{"x", ranks}}).value(), {{"x"}, {}}).value();
  std::vector<RankShards> all(ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    for (int64_t i = 0; i < tensors; ++i) {
      all[rank].shards.push_back({.key = KeyOf(i),
                                  .dtype = DType::kBF16,
                                  .global_shape = shape,
                                  .box = layout.LocalBox(shape, rank).value(),
                                  .layout = laid_out ? layout.ToString() : ""});
    }
  }
  return all;
}

// Makes one array, partitioned into side x side boxes.
std::vector<RankShards> Grid(int64_t side) {
  std::vector<RankShards> all(side * side);
  for (int64_t rank = 0; rank < side * side; ++rank) {
    all[rank].shards.push_back(
        {.key = KeyOf(0),
         .dtype = DType::kBF16,
         .global_shape = {side * 128, side * 128},
         .box = {{rank / side * 128, rank % side * 128}, {128, 128}}});
  }
  return all;
}

// A task for rank 0; the other ranks wait. The task returns a count that is
// compared with the expected one.
struct Task {
  std::string unit;
  int64_t expected = 0;
  std::function<StatusOr<int64_t>()> count;
};

Contender OnOneRank(const Context& context, std::function<Task()> make) {
  struct Run {
    Task task;
    int64_t found = 0;
  };
  auto run = std::make_shared<Run>();
  const bool works = context.comm->rank() == 0;
  if (works) run->task = make();
  return {.name = "belay",
          .run = [run, works]() -> Status {
            if (!works) return absl::OkStatus();
            StatusOr<int64_t> found = run->task.count();
            if (found.ok()) run->found = *found;
            return found.status();
          },
          .check = [run]() -> Status {
            if (run->found == run->task.expected) return absl::OkStatus();
            return absl::InternalError(
                absl::StrCat("another plan (need ", run->task.expected, " ",
                             run->task.unit, ", found ", run->found, ")"));
          },
          .clean = nullptr,
          .detail =
              [run] { return absl::StrCat(run->found, " ", run->task.unit); }};
}

// The shards of each key.
using HeldByKey = std::vector<std::vector<HeldShard>>;

HeldByKey ByKey(const std::vector<RankShards>& ranks) {
  HeldByKey held(ranks[0].shards.size());
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    for (size_t i = 0; i < held.size(); ++i) {
      held[i].push_back({static_cast<int32_t>(rank), static_cast<int32_t>(i),
                         &ranks[rank].shards[i]});
    }
  }
  return held;
}

// Does the exact cover check of all keys.
Task Cover(std::vector<RankShards> ranks) {
  auto shards = std::make_shared<std::vector<RankShards>>(std::move(ranks));
  auto held = std::make_shared<HeldByKey>(ByKey(*shards));
  return {.unit = "boxes",
          .expected = static_cast<int64_t>(shards->size() * held->size()),
          .count = [shards, held]() -> StatusOr<int64_t> {
            int64_t boxes = 0;
            for (const std::vector<HeldShard>& key : *held) {
              StatusOr<std::vector<HeldBox>> distinct = CheckCoverage(key);
              if (!distinct.ok()) return distinct.status();
              boxes += static_cast<int64_t>(distinct->size());
            }
            return boxes;
          }};
}

// What a restore must know about a checkpoint and its ranks.
struct Move {
  SavedCheckpoint saved;
  std::vector<RankShards> wanted;
  ListedRanks listed;  // the same, as received by rank 0
};

// Uses a file for each rank, so that each saved box is a dataset.
std::shared_ptr<Move> MakeMove(int64_t tensors, bool laid_out) {
  SimulatedSave ignored;
  const SavePlan plan =
      PlanSave(TellRoot(Rows(tensors, 1024, true), ignored).value(),
               {.file_layout = FileLayout::kPerTask})
          .value();
  auto move = std::make_shared<Move>();
  move->saved = IndexOf(plan);
  move->wanted = Rows(tensors, 1536, laid_out);
  move->listed = TellRoot(move->wanted, ignored).value();
  return move;
}

// Finds the saved boxes that hold what each rank wants of each array.
Task FindPieces(int64_t tensors) {
  const std::shared_ptr<Move> move = MakeMove(tensors, true);
  std::vector<std::vector<Box>> wanted(tensors);
  for (const RankShards& rank : move->wanted) {
    for (size_t i = 0; i < wanted.size(); ++i) {
      wanted[i].push_back(rank.shards[i].box);
    }
  }
  std::vector<int32_t> arrays(tensors);
  std::iota(arrays.begin(), arrays.end(), 0);
  return {.unit = "pieces",
          .expected = tensors * 2048,
          .count = [move, wanted, arrays]() -> StatusOr<int64_t> {
            int64_t pieces = 0;
            std::vector<FilteredDataset> filtered;
            const std::vector<ArrayDatasets> stored =
                ListDatasets(move->saved, arrays, filtered);
            for (size_t i = 0; i < stored.size(); ++i) {
              for (const Box& box : wanted[i]) {
                stored[i].ForEachPart(box, 2,
                                      [&](const ReadOrder&) { ++pieces; });
              }
            }
            return pieces;
          }};
}

// Plans a restore: the work of rank 0 for all ranks, its messages to them, and
// the work of one rank with its message (the other ranks do this at the same
// time).
Task PlanMove(int64_t tensors, bool laid_out) {
  constexpr int kRank = 1;  // it wants rows of two others
  const std::shared_ptr<Move> move = MakeMove(tensors, laid_out);
  std::vector<WantedBox> wanted;
  for (const ShardInfo& shard : move->wanted[kRank].shards) {
    wanted.push_back({.key = shard.key, .box = &shard.box});
  }
  return {.unit = "orders of a rank",
          .expected = tensors * 2,
          .count = [move, wanted]() -> StatusOr<int64_t> {
            DividedWants wants =
                DivideWants(move->saved, move->listed, Dividing::kWhatPays);
            StatusOr<RestorePlan> plan = PlanRestore(
                move->saved, wants.central, {.sharing = ReadSharing::kAuto});
            if (!plan.ok()) return plan.status();
            AddLocalArrays(move->saved, wants, *plan);
            const auto told =
                *Decode<std::vector<StackedArray>>(Encode(wants.stacked));
            RankReads& reads = plan->ranks[kRank];
            AddLocalReads(told, wanted, reads);
            return static_cast<int64_t>(reads.orders.size());
          }};
}

// Llama 3 70B with AdamW, as Megatron saves it.
Task PlanLlama(const std::string& models) {
  const std::vector<RankShards> states =
      RankStates(ReadModel(models + "/llama3-70b.mcore.tsv").value(),
                 {.tp = 8, .pp = 4, .dp = 4, .zero = true})
          .value();
  int64_t boxes = 0;
  for (const RankShards& rank : states) {
    boxes += static_cast<int64_t>(rank.shards.size());
  }
  SimulatedSave ignored;
  const auto listed =
      std::make_shared<ListedRanks>(TellRoot(states, ignored).value());
  // A step counter for each of 128 ranks, in addition to the tensors.
  return {.unit = "boxes",
          .expected = 31816 + 128,
          .count = [listed, boxes]() -> StatusOr<int64_t> {
            StatusOr<SavePlan> plan = PlanSave(*listed, {});
            if (!plan.ok()) return plan.status();
            return boxes;
          }};
}

// `limit_ms` is the allowed time at full size.
Workload OneTask(const std::string& title, const std::string& name,
                 double limit_ms, bool has_bar,
                 std::function<Task(const Context&)> make) {
  return {.title = title,
          .comparisons = {{.name = name,
                           .contender = "belay",
                           .baseline = "",
                           .bar = has_bar ? std::optional(1.0) : std::nullopt,
                           .limit_ms = limit_ms}},
          .uses_files = false,
          .make = [make](const Context& context,
                         const Medium&) -> StatusOr<std::vector<Contender>> {
            return std::vector<Contender>{
                OnOneRank(context, [&] { return make(context); })};
          }};
}

int64_t Tensors(const Context& context) {
  return std::max<int64_t>(
      1,
      static_cast<int64_t>(static_cast<double>(kMovesTensors) * context.scale));
}

}  // namespace

Workload CoverOf1024() {
  return OneTask("check the cover of 1,024 arrays in 1,024 rows",
                 "plan.cover.1024", 100, true, [](const Context& context) {
                   return Cover(Rows(Tensors(context), 1024, false));
                 });
}

Workload CoverOf2048() {
  return OneTask("check the cover of 1,024 arrays in 2,048 rows",
                 "plan.cover.2048", 250, true, [](const Context& context) {
                   return Cover(Rows(Tensors(context), 2048, false));
                 });
}

Workload CoverOfGrid() {
  return OneTask("check the cover of a grid of 32 x 32", "plan.cover.grid", 0.2,
                 true, [](const Context&) { return Cover(Grid(32)); });
}

Workload FindPiecesOfMove() {
  return OneTask(
      "find what 1,536 rows need of 1,024, in 1,024 arrays",
      "plan.pieces.1024to1536", 100, false,
      [](const Context& context) { return FindPieces(Tensors(context)); });
}

Workload PlanOfMove() {
  return OneTask("plan a restore of 1,024 rows in 1,536, of 1,024 arrays",
                 "plan.move.1024to1536", 100, true, [](const Context& context) {
                   return PlanMove(Tensors(context), true);
                 });
}

Workload PlanOfMoveByBoxes() {
  return OneTask(
      "the same, if no layout says which rows", "plan.move.boxes.1024to1536",
      100, false,
      [](const Context& context) { return PlanMove(Tensors(context), false); });
}

Workload PlanOfLlama() {
  return OneTask(
      "plan a save of Llama 3 70B, TP 8, PP 4, DP 4, ZeRO-1",
      "plan.llama70b.save", 200, true, [](const Context& context) {
        return PlanLlama(
            std::filesystem::path(context.model_file).parent_path().string());
      });
}

}  // namespace belay::bench
