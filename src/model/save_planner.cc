#include "model/save_planner.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_format.h"
#include "base/checksum.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "geometry/runs.h"
#include "model/chunking.h"
#include "model/coverage.h"
#include "model/replica_choice.h"

namespace belay {
namespace {

// All shards of one key.
struct KeyGroup {
  std::string_view key;
  std::vector<HeldShard> shards;
};

std::vector<KeyGroup> GroupByKey(const std::vector<RankShards>& ranks) {
  std::vector<KeyGroup> groups;
  absl::flat_hash_map<std::string_view, size_t> positions;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const std::vector<ShardInfo>& shards = ranks[rank].shards;
    for (size_t i = 0; i < shards.size(); ++i) {
      const auto [it, fresh] =
          positions.try_emplace(shards[i].key, groups.size());
      if (fresh) groups.push_back({shards[i].key, {}});
      groups[it->second].shards.push_back(
          {static_cast<int32_t>(rank), static_cast<int32_t>(i), &shards[i]});
    }
  }
  std::sort(groups.begin(), groups.end(),
            [](const KeyGroup& a, const KeyGroup& b) { return a.key < b.key; });
  return groups;
}

Status CheckKey(const KeyGroup& group) {
  if (!group.key.empty() && group.key.find('\0') == std::string_view::npos) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrFormat(
      "plan \"%s\": a key must not be empty or hold a NUL "
      "byte (listed by rank %d)",
      absl::CEscape(AbslView(group.key)), group.shards[0].rank));
}

// Numbers the files: the same for all ranks, per node, or per rank; ranks that
// write nothing have none.
class FileNumbers {
 public:
  FileNumbers(const std::vector<RankShards>& ranks, FileLayout layout)
      : ranks_(ranks), layout_(layout) {}

  // Which file a rank writes to, before numbering.
  int32_t Group(int32_t rank) const {
    switch (layout_) {
      case FileLayout::kShared:
        return 0;
      case FileLayout::kPerNode:
        return ranks_[rank].node;
      case FileLayout::kPerTask:
        return rank;
    }
    return 0;
  }

  // Numbers the groups that `pieces` use, in order of their lowest rank.
  void Number(const std::vector<WritePiece>& pieces, SavePlan& plan) {
    std::vector<bool> writes(ranks_.size(), false);
    for (const WritePiece& piece : pieces) writes[piece.rank] = true;
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (!writes[rank]) continue;
      const int32_t group = Group(static_cast<int32_t>(rank));
      const auto [it, fresh] = files_.try_emplace(group, plan.files.size());
      if (fresh) {
        // A shared file is made by rank 1, which may write nothing: rank 0
        // makes the index meanwhile.
        const bool shared = layout_ == FileLayout::kShared;
        const int32_t maker = ranks_.size() > 1 ? 1 : 0;
        plan.files.push_back(
            {.creator = shared ? maker : static_cast<int32_t>(rank)});
      }
      StoredFile& file = plan.files[it->second];
      ++file.num_writers;
      plan.ranks[rank].file = it->second;
    }
    for (size_t i = 0; i < plan.files.size(); ++i) {
      plan.files[i].name =
          absl::StrFormat("data_%05d_of_%05d.h5", i, plan.files.size());
    }
  }

 private:
  const std::vector<RankShards>& ranks_;
  FileLayout layout_;
  absl::flat_hash_map<int32_t, int32_t> files_;
};

// kShared: one dataset per array. Returns the dataset of each piece.
std::vector<int32_t> AddSharedDatasets(const std::vector<ArrayBoxes>& arrays,
                                       const std::vector<WritePiece>& pieces,
                                       ArrayLayout layout, SavePlan& plan) {
  std::vector<int32_t> of_array(arrays.size(), -1);
  for (const ArrayBoxes& array : arrays) {
    if (array.boxes.empty()) continue;
    const Shape shape = IoShape(plan.arrays[array.array]);
    StoredDataset dataset{.array = array.array, .box = WholeBox(shape)};
    if (layout == ArrayLayout::kAuto) {
      std::vector<const Box*> boxes;
      for (const HeldBox& held : array.boxes) boxes.push_back(&held.box);
      dataset.chunk = ChooseChunkShape(shape, array.element_size, boxes);
    }
    of_array[array.array] = static_cast<int32_t>(plan.datasets.size());
    plan.datasets.push_back(std::move(dataset));
  }
  std::vector<int32_t> of_piece;
  for (const WritePiece& piece : pieces) {
    of_piece.push_back(of_array[piece.array]);
  }
  return of_piece;
}

// kPerNode, kPerTask: one dataset per piece. Sorts the pieces as the datasets,
// and returns the dataset of each.
std::vector<int32_t> AddPieceDatasets(std::vector<WritePiece>& pieces,
                                      SavePlan& plan) {
  const auto file = [&](const WritePiece& p) {
    return plan.ranks[p.rank].file;
  };
  std::sort(pieces.begin(), pieces.end(),
            [&](const WritePiece& a, const WritePiece& b) {
              return std::forward_as_tuple(file(a), a.array, a.box.offset) <
                     std::forward_as_tuple(file(b), b.array, b.box.offset);
            });
  for (const WritePiece& piece : pieces) {
    plan.datasets.push_back(
        {.array = piece.array, .file = file(piece), .box = piece.box});
  }
  std::vector<int32_t> of_piece(pieces.size());
  std::iota(of_piece.begin(), of_piece.end(), 0);
  return of_piece;
}

// The most elements of a part that one round can take, by bytes and by runs.
int64_t MaxElements(const Box& part, const Extent& extent, int64_t element_size,
                    int64_t round_bytes) {
  const int64_t run = NumElements(part.shape) /
                      std::max<int64_t>(1, CountRuns(part, part, extent.box));
  const int64_t by_bytes = round_bytes / element_size;
  const int64_t by_runs =
      run > by_bytes / kMaxRunsPerRound + 1 ? by_bytes : run * kMaxRunsPerRound;
  return std::max<int64_t>(1, std::min(by_bytes, by_runs));
}

// Turns a piece into orders: one per extent and tile.
void AddOrders(const WritePiece& piece, int32_t index, int64_t first_block,
               int64_t round_bytes, SavePlan& plan) {
  const StoredDataset& dataset = plan.datasets[index];
  const int64_t element_size = IoElementSize(plan.arrays[piece.array].dtype);
  std::vector<WriteOrder>& orders = plan.ranks[piece.rank].orders;
  for (const Extent& extent : ExtentsOf(dataset, piece.box, element_size)) {
    const Box part = *Intersect(extent.box, piece.box);
    ForEachTile(part, MaxElements(part, extent, element_size, round_bytes),
                [&](const Box& tile) {
                  orders.push_back({.shard = piece.shard,
                                    .dataset = index,
                                    .first_block = first_block,
                                    .box = tile,
                                    .extent = extent});
                });
  }
}

void SortOrders(RankWrites& writes) {
  std::sort(writes.orders.begin(), writes.orders.end(),
            [](const WriteOrder& a, const WriteOrder& b) {
              return std::tie(a.dataset, a.extent.offset, a.box.offset) <
                     std::tie(b.dataset, b.extent.offset, b.box.offset);
            });
}

// Numbers the rounds of one rank's orders and counts its calls.
void CutIntoRounds(int64_t round_bytes, RankWrites& writes, SavePlan& plan) {
  int32_t round = 0, calls = 0, dataset = -1;
  int64_t in_round = 0, runs_in_round = 0;
  for (WriteOrder& order : writes.orders) {
    const StoredArray& array = plan.arrays[plan.datasets[order.dataset].array];
    const int64_t bytes =
        NumElements(order.box.shape) * IoElementSize(array.dtype);
    const int64_t runs = CountRuns(order.box, order.box, order.extent.box);
    if (in_round > 0 && (bytes > round_bytes - in_round ||
                         runs > kMaxRunsPerRound - runs_in_round)) {
      ++round;
      in_round = 0;
      runs_in_round = 0;
    }
    in_round += bytes;
    runs_in_round += runs;
    order.round = round;
    writes.bytes += bytes;
    calls = order.dataset == dataset ? calls + 1 : 1;
    dataset = order.dataset;
    plan.calls[dataset] = std::max(plan.calls[dataset], calls);
  }
  if (!writes.orders.empty()) {
    plan.rounds = std::max<int64_t>(plan.rounds, round + 1);
  }
}

// Checks all keys and adds them as arrays. Returns their boxes.
StatusOr<std::vector<ArrayBoxes>> AddArrays(
    const std::vector<RankShards>& ranks, SavePlan& plan) {
  std::vector<ArrayBoxes> arrays;
  int64_t total = 0;
  for (const KeyGroup& group : GroupByKey(ranks)) {
    BELAY_RETURN_IF_ERROR(CheckKey(group));
    BELAY_ASSIGN_OR_RETURN(std::vector<HeldBox> boxes,
                           CheckCoverage(group.shards));
    const ShardInfo& first = *group.shards[0].info;
    arrays.push_back({static_cast<int32_t>(plan.arrays.size()),
                      IoElementSize(first.dtype), std::move(boxes),
                      first.dtype != DType::kString});
    plan.arrays.push_back(
        {first.key, first.dtype, first.global_shape, first.string_bytes});
    const int64_t bytes = ArrayBytes(plan.arrays.back());
    if (bytes > INT64_MAX - total) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "plan \"%s\": all arrays together are too large (need at most %d "
          "bytes, found %d more than %d)",
          first.key, INT64_MAX, bytes, total));
    }
    total += bytes;
  }
  return arrays;
}

// Numbers the checksum blocks. Returns block 0 of each array.
std::vector<int64_t> NumberBlocks(SavePlan& plan) {
  std::vector<int64_t> first_blocks;
  for (const StoredArray& array : plan.arrays) {
    first_blocks.push_back(plan.num_blocks);
    plan.num_blocks += NumBlocks(ArrayBytes(array));
  }
  return first_blocks;
}

}  // namespace

StatusOr<SavePlan> PlanSave(const std::vector<RankShards>& ranks,
                            const SavePlanOptions& options) {
  SavePlan plan;
  plan.file_layout = options.file_layout;
  plan.ranks.resize(ranks.size());
  BELAY_ASSIGN_OR_RETURN(const std::vector<ArrayBoxes> arrays,
                         AddArrays(ranks, plan));
  const std::vector<int64_t> first_blocks = NumberBlocks(plan);
  std::vector<WritePiece> pieces =
      ChooseWriters(arrays, static_cast<int>(ranks.size()));
  FileNumbers(ranks, options.file_layout).Number(pieces, plan);
  const std::vector<int32_t> datasets =
      options.file_layout == FileLayout::kShared
          ? AddSharedDatasets(arrays, pieces, options.array_layout, plan)
          : AddPieceDatasets(pieces, plan);
  for (size_t i = 0; i < pieces.size(); ++i) {
    AddOrders(pieces[i], datasets[i], first_blocks[pieces[i].array],
              options.round_bytes, plan);
  }
  plan.calls.assign(plan.datasets.size(), 0);
  for (RankWrites& writes : plan.ranks) {
    SortOrders(writes);
    CutIntoRounds(options.round_bytes, writes, plan);
  }
  return plan;
}

}  // namespace belay
