#include "model/restore_planner.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/str_format.h"
#include "base/checksum.h"
#include "base/status_macros.h"
#include "model/box_index.h"

namespace belay {
namespace {

// A box that a rank wants of one array, as io box.
struct Want {
  int32_t rank = 0;
  int32_t shard = 0;
  Box box;
};

// A part of a wanted box, and whether it counts for the checksum.
struct Part {
  Box box;
  bool counts = false;
};

using Arrays = absl::flat_hash_map<std::string_view, int32_t>;

Status MissingKeys(const std::vector<RankShards>& wanted, const Arrays& arrays,
                   size_t stored) {
  absl::flat_hash_set<std::string_view> missing;
  std::string first;
  for (size_t rank = 0; rank < wanted.size(); ++rank) {
    for (const ShardInfo& shard : wanted[rank].shards) {
      if (arrays.contains(shard.key)) continue;
      if (missing.empty()) {
        first = absl::StrFormat(
            "plan \"%s\": key is not in the checkpoint "
            "(wanted by rank %d",
            shard.key, rank);
      }
      missing.insert(shard.key);
    }
  }
  if (missing.empty()) return absl::OkStatus();
  return absl::NotFoundError(
      absl::StrFormat("%s; %d of the wanted keys are absent, %d are stored)",
                      first, missing.size(), stored));
}

Status CheckWant(const ShardInfo& wanted, const StoredArray& array,
                 int32_t rank) {
  if (wanted.dtype != array.dtype) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "plan \"%s\": another dtype is stored (need %s, found %s; wanted by "
        "rank %d)",
        array.key, DTypeName(wanted.dtype), DTypeName(array.dtype), rank));
  }
  if (wanted.global_shape != array.shape) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "plan \"%s\": another shape is stored (need %s, found %s; wanted by "
        "rank %d)",
        array.key, ShapeText(wanted.global_shape), ShapeText(array.shape),
        rank));
  }
  const Status status = CheckBox(wanted.box, array.shape);
  if (status.ok()) return status;
  return Status(status.code(),
                absl::StrFormat("plan \"%s\": rank %d: %s", array.key, rank,
                                status.message()));
}

// The positions of the first want of each distinct box, the largest first, so
// that later ones are often covered whole.
std::vector<size_t> DistinctWants(const std::vector<Want>& wants) {
  absl::flat_hash_set<Box> seen;
  std::vector<std::pair<int64_t, size_t>> by_size;
  for (size_t i = 0; i < wants.size(); ++i) {
    if (!seen.insert(wants[i].box).second) continue;
    by_size.emplace_back(-NumElements(wants[i].box.shape), i);
  }
  std::sort(by_size.begin(), by_size.end());
  std::vector<size_t> distinct;
  for (const auto& [size, i] : by_size) distinct.push_back(i);
  return distinct;
}

// `boxes` without `hole`.
std::vector<Box> Without(const std::vector<Box>& boxes, const Box& hole) {
  std::vector<Box> rest;
  for (const Box& box : boxes) {
    for (Box& part : Subtract(box, hole)) rest.push_back(std::move(part));
  }
  return rest;
}

// Cuts the wanted boxes of one array into disjoint parts so that those that
// count are disjoint over all wants and have the same union as all.
// result[i] belongs to wants[i].
std::vector<std::vector<Part>> ChooseCounting(const std::vector<Want>& wants) {
  const std::vector<size_t> distinct = DistinctWants(wants);
  std::vector<const Box*> boxes;
  for (size_t i : distinct) boxes.push_back(&wants[i].box);
  const BoxIndex index(boxes);
  std::vector<std::vector<Part>> parts(wants.size());
  for (size_t k = 0; k < distinct.size(); ++k) {
    std::vector<Box> counting = {*boxes[k]};
    for (size_t earlier : index.Find(*boxes[k])) {
      if (earlier >= k || counting.empty()) break;
      counting = Without(counting, *boxes[earlier]);
    }
    std::vector<Box> rest = {*boxes[k]};
    for (const Box& box : counting) rest = Without(rest, box);
    for (Box& box : counting) {
      parts[distinct[k]].push_back({std::move(box), true});
    }
    for (Box& box : rest) parts[distinct[k]].push_back({std::move(box), false});
  }
  for (size_t i = 0; i < wants.size(); ++i) {
    if (parts[i].empty()) parts[i].push_back({wants[i].box, false});
  }
  return parts;
}

// The datasets of one array of an index.
class ArrayDatasets {
 public:
  ArrayDatasets(const SavedCheckpoint& saved, std::vector<int32_t> datasets)
      : saved_(saved),
        datasets_(std::move(datasets)),
        index_(Boxes(saved, datasets_)) {}

  // Calls `visit` for each extent that holds a part of `box`, with offsets from
  // the start of the file.
  void ForEachExtent(
      const Box& box, int64_t element_size,
      absl::FunctionRef<void(int32_t file, Extent extent)> visit) const {
    for (size_t i : index_.Find(box)) {
      const StoredDataset& dataset = saved_.datasets[datasets_[i]];
      for (Extent& extent : ExtentsOf(dataset, box, element_size)) {
        extent.offset += dataset.offset;
        visit(dataset.file, std::move(extent));
      }
    }
  }

 private:
  static std::vector<const Box*> Boxes(const SavedCheckpoint& saved,
                                       const std::vector<int32_t>& datasets) {
    std::vector<const Box*> boxes;
    for (int32_t i : datasets) boxes.push_back(&saved.datasets[i].box);
    return boxes;
  }

  const SavedCheckpoint& saved_;
  std::vector<int32_t> datasets_;
  BoxIndex index_;
};

// Adds the reads of one part: every extent that holds some of it.
Status AddReads(const ArrayDatasets& datasets, const StoredArray& array,
                const Want& want, const Part& part, RestorePlan& plan) {
  const int64_t element_size = IoElementSize(array.dtype);
  const int64_t need = NumElements(part.box.shape);
  int64_t found = 0;
  datasets.ForEachExtent(
      part.box, element_size, [&](int32_t file, Extent extent) {
        Box box = *Intersect(extent.box, part.box);
        found += NumElements(box.shape);
        plan.ranks[want.rank].orders.push_back(
            {.shard = want.shard,
             .file = file,
             .first_block = part.counts ? plan.num_blocks : -1,
             .box = std::move(box),
             .extent = std::move(extent)});
      });
  plan.bytes += found * element_size;
  if (found == need) return absl::OkStatus();
  return absl::DataLossError(absl::StrFormat(
      "plan \"%s\": the index does not hold box \"%s\" exactly once (need %d "
      "elements, found %d)",
      array.key, BoxText(part.box), need, found));
}

// Adds the reads of one array.
Status AddArray(const SavedCheckpoint& saved, int32_t index,
                std::vector<int32_t> datasets, const std::vector<Want>& wants,
                RestorePlan& plan) {
  const StoredArray& array = saved.arrays[index];
  plan.arrays.push_back(index);
  plan.first_blocks.push_back(plan.num_blocks);
  const ArrayDatasets stored(saved, std::move(datasets));
  const std::vector<std::vector<Part>> parts = ChooseCounting(wants);
  for (size_t i = 0; i < parts.size(); ++i) {
    for (const Part& part : parts[i]) {
      BELAY_RETURN_IF_ERROR(AddReads(stored, array, wants[i], part, plan));
    }
  }
  plan.num_blocks += NumBlocks(ArrayBytes(array));
  return absl::OkStatus();
}

void SortReads(RestorePlan& plan) {
  for (RankReads& reads : plan.ranks) {
    std::stable_sort(reads.orders.begin(), reads.orders.end(),
                     [](const ReadOrder& a, const ReadOrder& b) {
                       return std::tie(a.file, a.extent.offset, a.box.offset) <
                              std::tie(b.file, b.extent.offset, b.box.offset);
                     });
  }
}

// The wanted boxes by array, empty ones left out, and the texts' lengths.
StatusOr<std::vector<std::vector<Want>>> CollectWants(
    const SavedCheckpoint& saved, const std::vector<RankShards>& wanted,
    const Arrays& arrays, RestorePlan& plan) {
  std::vector<std::vector<Want>> wants(saved.arrays.size());
  for (size_t rank = 0; rank < wanted.size(); ++rank) {
    const std::vector<ShardInfo>& shards = wanted[rank].shards;
    plan.ranks[rank].string_bytes.resize(shards.size());
    for (size_t i = 0; i < shards.size(); ++i) {
      const int32_t index = arrays.at(shards[i].key);
      const StoredArray& array = saved.arrays[index];
      BELAY_RETURN_IF_ERROR(
          CheckWant(shards[i], array, static_cast<int32_t>(rank)));
      plan.ranks[rank].string_bytes[i] = array.string_bytes;
      Box box = array.dtype == DType::kString ? WholeBox(IoShape(array))
                                              : shards[i].box;
      if (IsEmpty(box)) continue;
      wants[index].push_back({static_cast<int32_t>(rank),
                              static_cast<int32_t>(i), std::move(box)});
    }
  }
  return wants;
}

}  // namespace

StatusOr<RestorePlan> PlanRestore(const SavedCheckpoint& saved,
                                  const std::vector<RankShards>& wanted) {
  RestorePlan plan;
  plan.ranks.resize(wanted.size());
  Arrays arrays;
  for (size_t i = 0; i < saved.arrays.size(); ++i) {
    arrays[saved.arrays[i].key] = static_cast<int32_t>(i);
  }
  BELAY_RETURN_IF_ERROR(MissingKeys(wanted, arrays, saved.arrays.size()));
  BELAY_ASSIGN_OR_RETURN(const std::vector<std::vector<Want>> wants,
                         CollectWants(saved, wanted, arrays, plan));
  std::vector<std::vector<int32_t>> datasets(saved.arrays.size());
  for (size_t i = 0; i < saved.datasets.size(); ++i) {
    datasets[saved.datasets[i].array].push_back(static_cast<int32_t>(i));
  }
  for (size_t i = 0; i < wants.size(); ++i) {
    if (wants[i].empty()) continue;
    BELAY_RETURN_IF_ERROR(AddArray(saved, static_cast<int32_t>(i),
                                   std::move(datasets[i]), wants[i], plan));
  }
  SortReads(plan);
  return plan;
}

}  // namespace belay
