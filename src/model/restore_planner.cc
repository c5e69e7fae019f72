#include "model/restore_planner.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/str_format.h"
#include "base/checksum.h"
#include "base/close_keys.h"
#include "base/status_macros.h"
#include "model/array_datasets.h"
#include "model/counting_parts.h"
#include "model/shared_reads.h"
#include "model/streams.h"
#include "model/whole_rows.h"

namespace belay {
namespace {

using Arrays = absl::flat_hash_map<std::string_view, int32_t>;

Status MissingKeys(const std::vector<RankShards>& wanted, const Arrays& arrays,
                   size_t stored) {
  absl::flat_hash_set<std::string_view> missing;
  std::string first, hint;
  for (size_t rank = 0; rank < wanted.size(); ++rank) {
    for (const ShardInfo& shard : wanted[rank].shards) {
      if (arrays.contains(shard.key)) continue;
      if (missing.empty()) {
        first = absl::StrFormat(
            "plan \"%s\": key is not in the checkpoint "
            "(wanted by rank %d",
            shard.key, rank);
        CloseKeys close(shard.key);
        for (const auto& [key, row] : arrays) close.Offer(key);
        hint = close.Hint();
      }
      missing.insert(shard.key);
    }
  }
  if (missing.empty()) return absl::OkStatus();
  return absl::NotFoundError(
      absl::StrFormat("%s; %d of the wanted keys are absent, %d are stored)%s",
                      first, missing.size(), stored, hint));
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

// One rank reads a part of an array, for one of its shards or for all.
struct Reading {
  int32_t rank = 0;
  int32_t shard = 0;
  Part part;
};

// What is read of each array that is wanted.
using Readings = std::vector<std::vector<Reading>>;

Readings ReadByEachRank(const std::vector<WantedArray>& arrays) {
  Readings readings;
  for (const WantedArray& array : arrays) {
    std::vector<std::vector<Part>> parts = ChooseCounting(array.wants);
    readings.emplace_back();
    for (size_t i = 0; i < parts.size(); ++i) {
      const Want& want = array.wants[i];
      for (Part& part : parts[i]) {
        readings.back().push_back({want.rank, want.shard, std::move(part)});
      }
    }
  }
  return readings;
}

// A plan in which each byte is read once, before it knows extents.
struct ReadingsOfOnce {
  Readings readings;
  int64_t saved_requests = 0;  // by reading whole rows
};

StatusOr<ReadingsOfOnce> ReadOnce(const std::vector<WantedArray>& arrays,
                                  const std::vector<ArrayDatasets>& stored,
                                  const ReadRules& rules, size_t num_ranks) {
  ReadingsOfOnce once{.readings = Readings(arrays.size())};
  BELAY_ASSIGN_OR_RETURN(std::vector<ArrayBoxes> parts,
                         PartsToRead(arrays, rules.primary_replica));
  absl::flat_hash_map<int32_t, size_t> positions;
  for (size_t i = 0; i < arrays.size(); ++i) {
    positions.emplace(arrays[i].array, i);
    once.saved_requests +=
        JoinIntoRows(stored[i], arrays[i].element_size, parts[i].boxes);
  }
  for (WritePiece& piece : ChooseWriters(parts, static_cast<int>(num_ranks))) {
    once.readings[positions.at(piece.array)].push_back(
        {piece.rank, piece.shard, {std::move(piece.box), true}});
  }
  return once;
}

// Adds one reading: every extent that holds some of it.
Status AddReads(const ArrayDatasets& datasets, const StoredArray& array,
                const Reading& reading, RestorePlan& plan) {
  const int64_t element_size = IoElementSize(array.dtype);
  const Part& part = reading.part;
  const int64_t need = NumElements(part.box.shape);
  int64_t found = 0;
  datasets.ForEachPart(part.box, element_size, [&](ReadOrder order) {
    found += NumElements(order.box.shape);
    order.shard = reading.shard;
    order.first_block = part.counts ? plan.num_blocks : -1;
    plan.ranks[reading.rank].orders.push_back(std::move(order));
  });
  plan.bytes += found * element_size;
  if (found == need) return absl::OkStatus();
  return absl::DataLossError(absl::StrFormat(
      "plan \"%s\": the index does not hold box \"%s\" exactly once (need %d "
      "elements, found %d)",
      array.key, BoxText(part.box), need, found));
}

void SortReads(RestorePlan& plan) {
  for (RankReads& reads : plan.ranks) {
    std::stable_sort(
        reads.orders.begin(), reads.orders.end(),
        [](const ReadOrder& a, const ReadOrder& b) {
          return std::tie(a.file, a.filtered, a.extent.offset, a.box.offset) <
                 std::tie(b.file, b.filtered, b.extent.offset, b.box.offset);
        });
  }
}

// Adds what is read to a plan that has nothing yet but its ranks.
Status AddReadings(const SavedCheckpoint& saved,
                   const std::vector<WantedArray>& arrays,
                   const std::vector<ArrayDatasets>& stored,
                   const Readings& readings, RestorePlan& plan) {
  for (size_t i = 0; i < arrays.size(); ++i) {
    const int32_t index = arrays[i].array;
    const StoredArray& array = saved.arrays[index];
    plan.arrays.push_back(index);
    plan.first_blocks.push_back(plan.num_blocks);
    for (const Reading& reading : readings[i]) {
      BELAY_RETURN_IF_ERROR(AddReads(stored[i], array, reading, plan));
    }
    plan.num_blocks += NumBlocks(ArrayBytes(array));
  }
  SortReads(plan);
  return absl::OkStatus();
}

// The wanted boxes by array, empty ones left out, and the texts' lengths.
StatusOr<std::vector<WantedArray>> CollectWants(
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
                              static_cast<int32_t>(i), shards[i].replica,
                              std::move(box)});
    }
  }
  std::vector<WantedArray> result;
  for (size_t i = 0; i < wants.size(); ++i) {
    if (wants[i].empty()) continue;
    const StoredArray& array = saved.arrays[i];
    result.push_back({.array = static_cast<int32_t>(i),
                      .key = array.key,
                      .element_size = IoElementSize(array.dtype),
                      .can_split = array.dtype != DType::kString,
                      .wants = std::move(wants[i])});
  }
  return result;
}

std::vector<int32_t> NumbersOf(const std::vector<WantedArray>& arrays) {
  std::vector<int32_t> numbers;
  for (const WantedArray& array : arrays) numbers.push_back(array.array);
  return numbers;
}

int64_t WantedBytes(const std::vector<WantedArray>& arrays) {
  int64_t bytes = 0;
  for (const WantedArray& array : arrays) {
    for (const Want& want : array.wants) {
      bytes += NumElements(want.box.shape) * array.element_size;
    }
  }
  return bytes;
}

// Decides whether a plan that reads each byte once is used, and says why.
bool IsUsed(const ReadRules& rules, int64_t wanted_bytes,
            int64_t saved_requests, RestorePlan& plan) {
  const int64_t saved = wanted_bytes - plan.bytes;
  if (plan.stream_bytes == 0) {
    plan.note = "no byte is wanted twice";
    return true;
  }
  plan.sharing = ReadSharing::kOnce;
  plan.note = absl::StrFormat("each byte is read once, %d of %d are saved",
                              saved, wanted_bytes);
  if (saved_requests > 0) {
    plan.note +=
        absl::StrFormat("; whole rows save %d requests", saved_requests);
  }
  if (rules.sharing == ReadSharing::kOnce || rules.primary_replica) return true;
  const int64_t portion = PortionBytes(1, rules.max_bytes_in_flight);
  const int64_t rounds = (plan.stream_bytes + portion - 1) / portion;
  const int64_t need =
      std::max(kLeastSavedPerRank * static_cast<int64_t>(plan.ranks.size()),
               kLeastSavedPerRound * rounds);
  if (saved + saved_requests * kBytesOfRequest >= need) return true;
  plan.note = absl::StrFormat(
      "each rank reads: sharing would save too little (need %d bytes, found "
      "%d)",
      need, saved);
  return false;
}

}  // namespace

StatusOr<RestorePlan> PlanRestore(const SavedCheckpoint& saved,
                                  const std::vector<RankShards>& wanted,
                                  const ReadRules& rules) {
  RestorePlan plan;
  plan.ranks.resize(wanted.size());
  Arrays arrays;
  for (size_t i = 0; i < saved.arrays.size(); ++i) {
    arrays[saved.arrays[i].key] = static_cast<int32_t>(i);
  }
  BELAY_RETURN_IF_ERROR(MissingKeys(wanted, arrays, saved.arrays.size()));
  BELAY_ASSIGN_OR_RETURN(const std::vector<WantedArray> wants,
                         CollectWants(saved, wanted, arrays, plan));
  const std::vector<ArrayDatasets> stored =
      DatasetsOf(saved, NumbersOf(wants), plan.filtered);
  if (rules.sharing != ReadSharing::kEachRank) {
    BELAY_ASSIGN_OR_RETURN(const ReadingsOfOnce once,
                           ReadOnce(wants, stored, rules, wanted.size()));
    RestorePlan shared = plan;
    BELAY_RETURN_IF_ERROR(
        AddReadings(saved, wants, stored, once.readings, shared));
    AddDeliveries(wants, shared);
    if (IsUsed(rules, WantedBytes(wants), once.saved_requests, shared)) {
      return shared;
    }
    plan.note = std::move(shared.note);
  } else {
    plan.note = "each rank reads, as asked";
  }
  BELAY_RETURN_IF_ERROR(
      AddReadings(saved, wants, stored, ReadByEachRank(wants), plan));
  return plan;
}

}  // namespace belay
