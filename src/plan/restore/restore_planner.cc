#include "plan/restore/restore_planner.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/numeric/int128.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "bytes/checksum.h"
#include "plan/restore/counting_parts.h"
#include "plan/restore/parts_to_read.h"
#include "plan/restore/sort_reads.h"
#include "plan/restore/streams.h"
#include "plan/restore/wanted_arrays.h"
#include "plan/restore/whole_rows.h"
#include "plan/stored/array_datasets.h"

namespace belay {
namespace {

constexpr char kNotTwice[] = "no byte is wanted twice";

// One rank reads a part of an array, for one of its shards or for all.
struct Reading {
  int32_t rank = 0;
  int32_t shard = 0;
  Part part;
};

// What is read of each array that is wanted and can be shared; of others each
// rank reads what it wants.
using Readings = std::vector<std::vector<Reading>>;

Readings ReadByEachRank(const std::vector<WantedArray>& arrays) {
  Readings readings;
  for (const WantedArray& array : arrays) {
    readings.emplace_back();
    if (!array.can_share) continue;
    std::vector<Parts> parts = ChooseCounting(array.wants);
    readings.back().reserve(parts.size());
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
    if (!arrays[i].can_share) continue;
    once.saved_requests +=
        JoinIntoRows(stored[i], arrays[i].element_size, parts[i].boxes);
  }
  for (WritePiece& piece : ChooseWriters(parts, static_cast<int>(num_ranks))) {
    const size_t i = positions.at(piece.array);
    if (!arrays[i].can_share) continue;
    once.readings[i].push_back(
        {piece.rank, piece.shard, {std::move(piece.box), true}});
  }
  return once;
}

// Adds what one rank reads of one shard: every extent that holds some of `box`.
Status AddReads(const ArrayDatasets& datasets, const StoredArray& array,
                int32_t rank, int32_t shard, const Box& box, bool counts,
                RestorePlan& plan) {
  const int64_t element_size = IoElementSize(array.dtype);
  const int64_t need = NumElements(box.shape);
  int64_t found = 0;
  datasets.ForEachPart(box, element_size, [&](ReadOrder& order) {
    found += NumElements(order.box.shape);
    order.shard = shard;
    order.first_block = counts ? plan.num_blocks : -1;
    plan.ranks[rank].orders.push_back(std::move(order));
  });
  plan.bytes += found * element_size;
  if (found == need) return absl::OkStatus();
  return absl::DataLossError(absl::StrFormat(
      "plan \"%s\": the index does not hold box \"%s\" exactly once (need %d "
      "elements, found %d)",
      array.key, BoxText(box), need, found));
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
      BELAY_RETURN_IF_ERROR(AddReads(stored[i], array, reading.rank,
                                     reading.shard, reading.part.box,
                                     reading.part.counts, plan));
    }
    if (!arrays[i].can_share) {
      for (const Want& want : arrays[i].wants) {
        BELAY_RETURN_IF_ERROR(AddReads(stored[i], array, want.rank, want.shard,
                                       want.box, true, plan));
      }
    }
    plan.num_blocks += NumBlocks(ArrayBytes(array));
  }
  for (RankReads& reads : plan.ranks) SortReads(reads.orders);
  return absl::OkStatus();
}

std::vector<int32_t> NumbersOf(const std::vector<WantedArray>& arrays) {
  std::vector<int32_t> numbers;
  for (const WantedArray& array : arrays) numbers.push_back(array.array);
  return numbers;
}

bool AnyCanShare(const std::vector<WantedArray>& arrays) {
  return std::any_of(arrays.begin(), arrays.end(),
                     [](const WantedArray& a) { return a.can_share; });
}

// Of all ranks; the most that can be said if they want more, each of them all
// of a file that claims to be huge.
int64_t WantedBytes(const std::vector<WantedArray>& arrays) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  absl::uint128 bytes = 0;
  for (const WantedArray& array : arrays) {
    for (const Want& want : array.wants) {
      bytes += static_cast<uint64_t>(NumElements(want.box.shape) *
                                     array.element_size);
    }
  }
  return static_cast<int64_t>(std::min<absl::uint128>(bytes, kMost));
}

// Decides whether a plan that reads each byte once is used, and says why.
bool IsUsed(const ReadRules& rules, int64_t wanted_bytes,
            int64_t saved_requests, RestorePlan& plan) {
  const int64_t saved = wanted_bytes - plan.bytes;
  if (plan.stream_bytes == 0) {
    plan.note = kNotTwice;
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
  BELAY_ASSIGN_OR_RETURN(const std::vector<WantedArray> wants,
                         CollectWants(saved, wanted, plan.ranks));
  const std::vector<ArrayDatasets> stored =
      DatasetsOf(saved, NumbersOf(wants), plan.filtered);
  if (rules.sharing == ReadSharing::kEachRank) {
    plan.note = "each rank reads, as asked";
  } else if (!rules.primary_replica && !AnyCanShare(wants)) {
    plan.note = kNotTwice;
  } else {
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
  }
  for (size_t rank = 0; rank < wanted.size(); ++rank) {
    // Most boxes meet one or two of those that were saved.
    plan.ranks[rank].orders.reserve(2 * wanted[rank].shards.size());
  }
  BELAY_RETURN_IF_ERROR(
      AddReadings(saved, wants, stored, ReadByEachRank(wants), plan));
  return plan;
}

}  // namespace belay
