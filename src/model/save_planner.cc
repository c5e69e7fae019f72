#include "model/save_planner.h"

#include <algorithm>
#include <numeric>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_format.h"
#include "base/checksum.h"
#include "base/status_macros.h"
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
  return absl::InvalidArgumentError(
      absl::StrFormat("plan \"%s\": a key is not empty and has no NUL byte "
                      "(listed by rank %d)",
                      group.key, group.shards[0].rank));
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
        // A shared file is made by rank 0 even where rank 0 writes nothing.
        const bool shared = layout_ == FileLayout::kShared;
        plan.files.push_back(
            {.creator = shared ? 0 : static_cast<int32_t>(rank)});
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

// kShared: one dataset per array.
void AddSharedDatasets(const std::vector<ArrayBoxes>& arrays,
                       ArrayLayout layout, SavePlan& plan) {
  for (const ArrayBoxes& array : arrays) {
    if (array.boxes.empty()) continue;
    const Shape shape = IoShape(plan.arrays[array.array]);
    StoredDataset dataset{.array = array.array, .box = WholeBox(shape)};
    if (layout == ArrayLayout::kAuto) {
      std::vector<const Box*> boxes;
      for (const HeldBox& held : array.boxes) boxes.push_back(&held.box);
      dataset.chunk = ChooseChunkShape(shape, array.element_size, boxes);
    }
    plan.datasets.push_back(std::move(dataset));
  }
}

// kPerNode, kPerTask: one dataset per piece.
void AddPieceDatasets(const std::vector<WritePiece>& pieces, SavePlan& plan) {
  for (const WritePiece& piece : pieces) {
    plan.datasets.push_back({.array = piece.array,
                             .file = plan.ranks[piece.rank].file,
                             .box = piece.box});
  }
  std::sort(plan.datasets.begin(), plan.datasets.end(),
            [](const StoredDataset& a, const StoredDataset& b) {
              return std::tie(a.file, a.array, a.box.offset) <
                     std::tie(b.file, b.array, b.box.offset);
            });
}

// Finds the dataset of a piece again.
class DatasetFinder {
 public:
  explicit DatasetFinder(const SavePlan& plan) : plan_(plan) {
    for (size_t i = 0; i < plan.datasets.size(); ++i) {
      const StoredDataset& dataset = plan.datasets[i];
      positions_[Key(dataset.file, dataset.array, dataset.box.offset)] = i;
    }
  }

  int32_t Find(const WritePiece& piece) const {
    const bool shared = plan_.file_layout == FileLayout::kShared;
    return positions_.at(
        shared
            ? Key(0, piece.array, Shape(piece.box.offset.size(), 0))
            : Key(plan_.ranks[piece.rank].file, piece.array, piece.box.offset));
  }

 private:
  using Position = std::tuple<int32_t, int32_t, Shape>;
  static Position Key(int32_t file, int32_t array, const Shape& offset) {
    return {file, array, offset};
  }

  const SavePlan& plan_;
  absl::flat_hash_map<Position, int32_t> positions_;
};

// Turns pieces into orders: one per extent and tile, ascending, with rounds.
void AddOrders(std::vector<WritePiece> pieces, int64_t round_bytes,
               const std::vector<int64_t>& first_blocks, SavePlan& plan) {
  const DatasetFinder finder(plan);
  for (const WritePiece& piece : pieces) {
    const int32_t index = finder.Find(piece);
    const StoredDataset& dataset = plan.datasets[index];
    const int64_t element_size = IoElementSize(plan.arrays[piece.array].dtype);
    RankWrites& writes = plan.ranks[piece.rank];
    for (const Extent& extent : ExtentsOf(dataset, piece.box, element_size)) {
      const std::optional<Box> part = Intersect(extent.box, piece.box);
      ForEachTile(
          *part, std::max<int64_t>(1, round_bytes / element_size),
          [&](const Box& tile) {
            writes.orders.push_back({.shard = piece.shard,
                                     .dataset = index,
                                     .first_block = first_blocks[piece.array],
                                     .box = tile,
                                     .extent = extent});
          });
    }
  }
}

void CutIntoRounds(int64_t round_bytes, SavePlan& plan) {
  plan.rounds = 0;
  plan.calls.assign(plan.datasets.size(), 0);
  for (RankWrites& writes : plan.ranks) {
    std::sort(writes.orders.begin(), writes.orders.end(),
              [](const WriteOrder& a, const WriteOrder& b) {
                return std::tie(a.dataset, a.extent.offset, a.box.offset) <
                       std::tie(b.dataset, b.extent.offset, b.box.offset);
              });
    int32_t round = 0, calls = 0, dataset = -1;
    int64_t in_round = 0;
    for (WriteOrder& order : writes.orders) {
      const StoredArray& array =
          plan.arrays[plan.datasets[order.dataset].array];
      const int64_t bytes =
          NumElements(order.box.shape) * IoElementSize(array.dtype);
      if (in_round > 0 && in_round + bytes > round_bytes) {
        ++round;
        in_round = 0;
      }
      in_round += bytes;
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
}

}  // namespace

StatusOr<SavePlan> PlanSave(const std::vector<RankShards>& ranks,
                            const SavePlanOptions& options) {
  SavePlan plan;
  plan.file_layout = options.file_layout;
  plan.ranks.resize(ranks.size());

  std::vector<ArrayBoxes> arrays;
  std::vector<int64_t> first_blocks;
  for (const KeyGroup& group : GroupByKey(ranks)) {
    BELAY_RETURN_IF_ERROR(CheckKey(group));
    BELAY_ASSIGN_OR_RETURN(std::vector<HeldBox> boxes,
                           CheckCoverage(group.shards));
    const ShardInfo& first = *group.shards[0].info;
    plan.arrays.push_back(
        {first.key, first.dtype, first.global_shape, first.string_bytes});
    arrays.push_back({static_cast<int32_t>(plan.arrays.size()) - 1,
                      IoElementSize(first.dtype), std::move(boxes)});
    first_blocks.push_back(plan.num_blocks);
    plan.num_blocks += NumBlocks(ArrayBytes(plan.arrays.back()));
  }

  std::vector<WritePiece> pieces =
      ChooseWriters(arrays, static_cast<int>(ranks.size()));
  FileNumbers(ranks, options.file_layout).Number(pieces, plan);
  if (options.file_layout == FileLayout::kShared) {
    AddSharedDatasets(arrays, options.array_layout, plan);
  } else {
    AddPieceDatasets(pieces, plan);
  }
  AddOrders(std::move(pieces), options.round_bytes, first_blocks, plan);
  CutIntoRounds(options.round_bytes, plan);
  return plan;
}

}  // namespace belay
