#include "model/restore_planner.h"

#include <algorithm>
#include <numeric>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/checksum.h"
#include "base/status_macros.h"
#include "model/coverage.h"

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

// Cuts the wanted boxes of one array into parts so that those that count are
// disjoint and have the same union as all. result[i] belongs to wants[i].
std::vector<std::vector<Part>> ChooseCounting(const std::vector<Want>& wants) {
  std::vector<std::vector<Part>> parts(wants.size());
  absl::flat_hash_set<Box> seen;
  std::vector<size_t> fresh;  // the first want of each distinct box
  std::vector<const Box*> distinct;
  for (size_t i = 0; i < wants.size(); ++i) {
    if (seen.insert(wants[i].box).second) {
      fresh.push_back(i);
      distinct.push_back(&wants[i].box);
    } else {
      parts[i].push_back({wants[i].box, false});
    }
  }
  if (!FindOverlap(distinct)) {
    for (size_t i : fresh) parts[i].push_back({wants[i].box, true});
    return parts;
  }
  std::vector<Box> covered;
  for (size_t i : fresh) {
    std::vector<Box> open = {wants[i].box};
    for (const Box& done : covered) {
      if (const auto common = Intersect(done, wants[i].box)) {
        parts[i].push_back({*common, false});
      }
      std::vector<Box> rest;
      for (const Box& box : open) {
        for (Box& part : Subtract(box, done)) rest.push_back(std::move(part));
      }
      open = std::move(rest);
    }
    for (Box& box : open) {
      covered.push_back(box);
      parts[i].push_back({std::move(box), true});
    }
  }
  return parts;
}

// Adds the reads of one part: every extent that holds some of it.
Status AddReads(const SavedCheckpoint& saved,
                const std::vector<int32_t>& datasets, const StoredArray& array,
                const Want& want, const Part& part, int64_t first_block,
                RestorePlan& plan) {
  const int64_t element_size = IoElementSize(array.dtype);
  int64_t found = 0;
  for (int32_t index : datasets) {
    const StoredDataset& dataset = saved.datasets[index];
    for (Extent& extent : ExtentsOf(dataset, part.box, element_size)) {
      const Box box = *Intersect(extent.box, part.box);
      found += NumElements(box.shape);
      extent.offset += dataset.offset;
      plan.ranks[want.rank].orders.push_back(
          {.shard = want.shard,
           .file = dataset.file,
           .first_block = part.counts ? first_block : -1,
           .box = box,
           .extent = std::move(extent)});
    }
  }
  plan.bytes += found * element_size;
  if (found == NumElements(part.box.shape)) return absl::OkStatus();
  return absl::DataLossError(absl::StrFormat(
      "plan \"%s\": the index has no data for a part of box \"%s\" (need %d "
      "elements, found %d)",
      array.key, BoxText(part.box), NumElements(part.box.shape), found));
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
  for (size_t index = 0; index < wants.size(); ++index) {
    if (wants[index].empty()) continue;
    const StoredArray& array = saved.arrays[index];
    plan.arrays.push_back(static_cast<int32_t>(index));
    plan.first_blocks.push_back(plan.num_blocks);
    const auto parts = ChooseCounting(wants[index]);
    for (size_t i = 0; i < parts.size(); ++i) {
      for (const Part& part : parts[i]) {
        BELAY_RETURN_IF_ERROR(AddReads(saved, datasets[index], array,
                                       wants[index][i], part, plan.num_blocks,
                                       plan));
      }
    }
    plan.num_blocks += NumBlocks(ArrayBytes(array));
  }
  SortReads(plan);
  return plan;
}

}  // namespace belay
