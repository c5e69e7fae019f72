#include "plan/restore_planner.h"

#include <limits>
#include <tuple>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/numeric/int128.h"
#include "core/checksum.h"
#include "core/keys.h"
#include "core/option_table.h"
#include "core/status_macros.h"
#include "plan/local_reads.h"
#include "plan/shared_targets.h"

namespace belay {
namespace {

using Arrays = absl::flat_hash_map<std::string_view, int32_t>;

Status MissingKeys(const std::vector<RankShards>& wanted, const Arrays& arrays,
                   size_t stored) {
  absl::flat_hash_set<std::string_view> missing;
  std::string first;
  int64_t first_rank = 0;
  for (size_t rank = 0; rank < wanted.size(); ++rank) {
    for (const ShardInfo& shard : wanted[rank].shards) {
      if (arrays.contains(shard.key)) continue;
      if (missing.empty()) {
        first = shard.key;
        first_rank = static_cast<int64_t>(rank);
      }
      missing.insert(shard.key);
    }
  }
  if (missing.empty()) return absl::OkStatus();
  CloseKeys close(first);
  for (const auto& [key, row] : arrays) close.Offer(key);
  return absl::NotFoundError(absl::StrFormat(
      "plan \"%s\": %s; %s if values may keep what they have", first,
      close.AbsentText(absl::StrFormat(
          "wanted by rank %d; %d wanted %s absent, the checkpoint has %d",
          first_rank, missing.size(),
          missing.size() == 1 ? "key is" : "keys are", stored)),
      SetOption(&RestoreOptions::missing, {MismatchPolicy::kIgnore})));
}

// Returns whether options allow all differences: a hint at an option that
// leaves one would not help.
bool CanFit(const ShardInfo& wanted, const StoredArray& array) {
  return Fits(StoredForm{array.dtype, array.shape},
              StoredForm{wanted.dtype, wanted.global_shape},
              {.dtype = true, .lengths = true});
}

Status CheckWant(const ShardInfo& wanted, const StoredArray& array,
                 int32_t rank) {
  if (wanted.dtype != array.dtype) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "plan \"%s\": the stored dtype differs (need %s, found %s; wanted by "
        "rank %d)%s",
        array.key, DTypeName(wanted.dtype), DTypeName(array.dtype), rank,
        CanFit(wanted, array) ? "; allow_dtype_cast converts it" : ""));
  }
  if (wanted.global_shape != array.shape) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "plan \"%s\": the stored shape differs (need %s, found %s; wanted by "
        "rank %d)%s",
        array.key, ShapeText(wanted.global_shape), ShapeText(array.shape), rank,
        CanFit(wanted, array)
            ? "; allow_shape_mismatch restores what both have in common"
            : ""));
  }
  const Status status = CheckBox(wanted.box, array.shape);
  if (status.ok()) return status;
  return Status(status.code(),
                absl::StrFormat("plan \"%s\": rank %d: %s", array.key, rank,
                                status.message()));
}

// By rank and shard, the number of the array in the index.
using ShardArrays = std::vector<std::vector<int32_t>>;

// Checks the wants, and finds the arrays.
StatusOr<ShardArrays> FindArrays(const SavedCheckpoint& saved,
                                 const std::vector<RankShards>& wanted) {
  Arrays arrays;
  for (size_t i = 0; i < saved.arrays.size(); ++i) {
    arrays[saved.arrays[i].key] = static_cast<int32_t>(i);
  }
  ShardArrays found(wanted.size());
  // Ranks mostly want the same keys in the same order.
  const auto find = [&](const std::string& key, size_t rank, size_t i) {
    if (rank > 0 && i < found[rank - 1].size()) {
      const int32_t of_last = found[rank - 1][i];
      if (saved.arrays[of_last].key == key) return of_last;
    }
    const auto it = arrays.find(key);
    return it == arrays.end() ? -1 : it->second;
  };
  Status status;
  for (size_t rank = 0; rank < wanted.size(); ++rank) {
    found[rank].reserve(wanted[rank].shards.size());
    for (const ShardInfo& shard : wanted[rank].shards) {
      const int32_t array = find(shard.key, rank, found[rank].size());
      if (array < 0) return MissingKeys(wanted, arrays, saved.arrays.size());
      found[rank].push_back(array);
      if (!status.ok()) continue;  // a key may be missing
      status =
          CheckWant(shard, saved.arrays[array], static_cast<int32_t>(rank));
    }
  }
  if (!status.ok()) return status;
  return found;
}

// Returns the wanted boxes that are not empty, and sets the lengths of texts in
// `ranks`.
StatusOr<std::vector<WantedArray>> CollectWants(
    const SavedCheckpoint& saved, const std::vector<RankShards>& wanted,
    std::vector<RankReads>& ranks) {
  BELAY_ASSIGN_OR_RETURN(const ShardArrays arrays, FindArrays(saved, wanted));
  std::vector<size_t> counts(saved.arrays.size(), 0);
  for (const std::vector<int32_t>& numbers : arrays) {
    for (int32_t number : numbers) ++counts[number];
  }
  std::vector<std::vector<Want>> wants(saved.arrays.size());
  for (size_t i = 0; i < wants.size(); ++i) wants[i].reserve(counts[i]);
  for (size_t rank = 0; rank < wanted.size(); ++rank) {
    const std::vector<ShardInfo>& shards = wanted[rank].shards;
    for (size_t i = 0; i < shards.size(); ++i) {
      const int32_t index = arrays[rank][i];
      const StoredArray& array = saved.arrays[index];
      const bool is_text = array.dtype == DType::kString;
      if (is_text) {
        ranks[rank].texts.push_back(
            {static_cast<int32_t>(i), array.string_bytes});
      }
      if (is_text ? array.string_bytes == 0 : IsEmpty(shards[i].box)) continue;
      wants[index].push_back(
          {static_cast<int32_t>(rank), static_cast<int32_t>(i),
           shards[i].replica,
           is_text ? WholeBox(IoShape(array)) : shards[i].box});
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
                      .can_share = CanShare(wants[i]),
                      .wants = std::move(wants[i])});
  }
  return result;
}

// --- Sort reads ---

// Orders are large, so their places are sorted instead.
struct ReadPlace {
  int32_t file = 0;
  int32_t filtered = 0;
  int64_t offset = 0;
  size_t index = 0;  // of the order
};

}  // namespace

void SortReads(std::vector<ReadOrder>& orders) {
  std::vector<ReadPlace> places;
  places.reserve(orders.size());
  for (size_t i = 0; i < orders.size(); ++i) {
    places.push_back(
        {orders[i].file, orders[i].filtered, orders[i].extent.offset, i});
  }
  const auto is_before = [&](const ReadPlace& a, const ReadPlace& b) {
    const auto first = std::tie(a.file, a.filtered, a.offset);
    const auto second = std::tie(b.file, b.filtered, b.offset);
    if (first != second) return first < second;
    const Box& box = orders[a.index].box;
    const Box& other = orders[b.index].box;
    return std::tie(box.offset, a.index) < std::tie(other.offset, b.index);
  };
  if (std::is_sorted(places.begin(), places.end(), is_before)) return;
  std::sort(places.begin(), places.end(), is_before);
  std::vector<ReadOrder> arranged;
  arranged.reserve(orders.size());
  for (const ReadPlace& place : places) {
    arranged.push_back(std::move(orders[place.index]));
  }
  orders = std::move(arranged);
}

// --- Restore planner ---

namespace {

constexpr char kNotTwice[] = "no byte is wanted twice";

// A rank reads a part of an array, for one of its shards or for all.
struct Reading {
  int32_t rank = 0;
  int32_t shard = 0;
  Part part;
};

// The reads of each array that can be shared; of others each rank reads what it
// wants.
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

// Returns reads of each byte once, and adds to `saved_requests` those that
// whole rows save.
StatusOr<Readings> ReadOnce(const std::vector<WantedArray>& arrays,
                            const std::vector<ArrayDatasets>& stored,
                            const ReadRules& rules, size_t num_ranks,
                            int64_t& saved_requests) {
  Readings readings(arrays.size());
  BELAY_ASSIGN_OR_RETURN(std::vector<ArrayBoxes> parts,
                         PartsToRead(arrays, rules.primary_replica));
  absl::flat_hash_map<int32_t, size_t> positions;
  for (size_t i = 0; i < arrays.size(); ++i) {
    positions.emplace(arrays[i].array, i);
    if (!arrays[i].can_share) continue;
    saved_requests +=
        JoinIntoRows(stored[i], arrays[i].element_size, parts[i].boxes);
  }
  for (WritePiece& piece : ChooseWriters(parts, static_cast<int>(num_ranks))) {
    const size_t i = positions.at(piece.array);
    if (!arrays[i].can_share) continue;
    readings[i].push_back(
        {piece.rank, piece.shard, {std::move(piece.box), true}});
  }
  return readings;
}

// Adds the reads of a rank for one shard: every extent that holds some of
// `box`.
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

// Adds reads to a plan that has only its ranks.
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

// Returns the bytes that all ranks want, capped: a file can claim to be huge.
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

// Decides whether to use a plan that reads each byte once, and notes why.
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
  std::vector<int32_t> numbers;
  for (const WantedArray& array : wants) numbers.push_back(array.array);
  const std::vector<ArrayDatasets> stored =
      DatasetsOf(saved, numbers, plan.filtered);
  if (rules.sharing == ReadSharing::kEachRank) {
    plan.note = "each rank reads, as asked";
  } else if (!rules.primary_replica &&
             std::ranges::none_of(wants, &WantedArray::can_share)) {
    plan.note = kNotTwice;
  } else {
    int64_t saved_requests = 0;
    BELAY_ASSIGN_OR_RETURN(
        const Readings once,
        ReadOnce(wants, stored, rules, wanted.size(), saved_requests));
    RestorePlan shared = plan;
    BELAY_RETURN_IF_ERROR(AddReadings(saved, wants, stored, once, shared));
    AddDeliveries(wants, shared);
    if (IsUsed(rules, WantedBytes(wants), saved_requests, shared)) {
      return shared;
    }
    plan.note = std::move(shared.note);
  }
  for (size_t rank = 0; rank < wanted.size(); ++rank) {
    // Most boxes meet one or two of the saved ones.
    plan.ranks[rank].orders.reserve(2 * wanted[rank].shards.size());
  }
  BELAY_RETURN_IF_ERROR(
      AddReadings(saved, wants, stored, ReadByEachRank(wants), plan));
  return plan;
}

}  // namespace belay
