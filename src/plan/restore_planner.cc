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
#include "core/strided_copy.h"
#include "plan/shared_targets.h"

namespace belay {

// --- Whole rows ---

namespace {

// Returns 0 if two boxes differ at most along `axis`, else their order along
// the other axes.
int CompareBut(size_t axis, const Box& a, const Box& b) {
  for (size_t i = 0; i < a.offset.size(); ++i) {
    if (i == axis) continue;
    const auto mine = std::tie(a.offset[i], a.shape[i]);
    const auto its = std::tie(b.offset[i], b.shape[i]);
    if (mine != its) return mine < its ? -1 : 1;
  }
  return 0;
}

void JoinAlong(size_t axis, std::vector<HeldBox>& boxes) {
  std::sort(
      boxes.begin(), boxes.end(), [&](const HeldBox& a, const HeldBox& b) {
        const int order = CompareBut(axis, a.box, b.box);
        return order != 0 ? order < 0 : a.box.offset[axis] < b.box.offset[axis];
      });
  size_t last = 0;
  for (size_t i = 1; i < boxes.size(); ++i) {
    HeldBox& joined = boxes[last];
    const Box& next = boxes[i].box;
    if (CompareBut(axis, joined.box, next) != 0 ||
        joined.box.offset[axis] + joined.box.shape[axis] != next.offset[axis]) {
      if (++last != i) boxes[last] = std::move(boxes[i]);
      continue;
    }
    joined.box.shape[axis] += next.shape[axis];
    joined.holders.insert(joined.holders.end(), boxes[i].holders.begin(),
                          boxes[i].holders.end());
  }
  boxes.resize(last + 1);
}

// Returns true if all boxes have the same offset and length along all axes but
// the first, so that no boxes are side by side.
bool AreRows(const std::vector<HeldBox>& boxes) {
  const Box& first = boxes[0].box;
  return std::all_of(boxes.begin(), boxes.end(), [&](const HeldBox& held) {
    return std::equal(first.offset.begin() + 1, first.offset.end(),
                      held.box.offset.begin() + 1) &&
           std::equal(first.shape.begin() + 1, first.shape.end(),
                      held.box.shape.begin() + 1);
  });
}

// Counts the runs in files that hold the boxes.
int64_t CountRequests(const ArrayDatasets& stored, int64_t element_size,
                      const std::vector<HeldBox>& boxes) {
  int64_t requests = 0;
  for (const HeldBox& held : boxes) {
    stored.ForEachPart(held.box, element_size, [&](const ReadOrder& order) {
      requests += CountRuns(order.box, order.box, order.extent.box);
    });
  }
  return requests;
}

}  // namespace

std::vector<HeldBox> JoinSideBySide(std::vector<HeldBox> boxes) {
  const size_t before = boxes.size();
  if (before < 2) return boxes;
  for (size_t axis = boxes[0].box.shape.size(); axis-- > 1;) {
    JoinAlong(axis, boxes);
  }
  if (boxes.size() == before) return boxes;
  for (HeldBox& held : boxes) {
    std::stable_sort(
        held.holders.begin(), held.holders.end(),
        [](const HeldShard& a, const HeldShard& b) { return a.rank < b.rank; });
  }
  return boxes;
}

int64_t JoinIntoRows(const ArrayDatasets& stored, int64_t element_size,
                     std::vector<HeldBox>& boxes) {
  if (boxes.size() < 2 || boxes[0].box.shape.size() < 2 || AreRows(boxes)) {
    return 0;
  }
  std::vector<HeldBox> joined = JoinSideBySide(boxes);
  if (joined.size() == boxes.size()) return 0;
  const int64_t saved = CountRequests(stored, element_size, boxes) -
                        CountRequests(stored, element_size, joined);
  int64_t bytes = 0;
  for (const HeldBox& held : boxes) {
    bytes += NumElements(held.box.shape) * element_size;
  }
  if (saved <= 0 || bytes / kBytesPerRequest > saved) return 0;
  boxes = std::move(joined);
  return saved;
}

// --- Restore planner ---

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

// Returns true if options can allow all differences. Otherwise a hint at one
// option would not help.
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
  return AddPrefix(CheckBox(wanted.box, array.shape), "plan \"", array.key,
                   "\": rank ", rank);
}

// The array's number in the index, per rank and shard.
using ShardArrays = std::vector<std::vector<int32_t>>;

// Checks the wants, and finds their arrays.
StatusOr<ShardArrays> FindArrays(const SavedCheckpoint& saved,
                                 const std::vector<RankShards>& wanted) {
  Arrays arrays;
  for (size_t i = 0; i < saved.arrays.size(); ++i) {
    arrays[saved.arrays[i].key] = static_cast<int32_t>(i);
  }
  ShardArrays found(wanted.size());
  // Most ranks want the same keys in the same order.
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
      if (!status.ok()) continue;  // a missing key takes precedence
      status =
          CheckWant(shard, saved.arrays[array], static_cast<int32_t>(rank));
    }
  }
  if (!status.ok()) return status;
  return found;
}

// Checks whether the boxes of an array, added by rank, follow each other along
// the first axis, and counts them. Ignores empty boxes. Scalars pass only if
// there is a single one.
class BoxesInRows {
 public:
  void Add(const Box& box) {
    if (IsEmpty(box) || !in_rows_) return;
    if (box.shape.empty()) {
      in_rows_ = count_ == 0;
    } else {
      in_rows_ = box.offset[0] >= end_;
      end_ = box.offset[0] + box.shape[0];
    }
    ++count_;
  }
  bool in_rows() const { return in_rows_; }
  int64_t count() const { return in_rows_ ? count_ : 0; }

 private:
  bool in_rows_ = true;
  int64_t end_ = 0;
  int64_t count_ = 0;
};

// Returns true if reading for other ranks may help: boxes overlap or are side
// by side. False positives are possible.
bool CanShare(const std::vector<Want>& wants) {
  BoxesInRows rows;
  for (const Want& want : wants) {  // boxes are usually in rank order
    rows.Add(want.box);
    if (!rows.in_rows()) return true;
  }
  return false;
}

// Returns the wanted boxes that are not empty, and adds the lengths of strings
// to `ranks`.
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

// The sort key of an order. Orders are large, so these are sorted instead.
struct ReadPlace {
  int32_t file = 0;
  int32_t filtered = 0;
  int64_t offset = 0;
  size_t index = 0;  // of the order
};

// Sorts the orders of a rank by file and offset, so that the rank reads one
// file after another, each from front to back.
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

int64_t Aligned(int64_t bytes) {
  return (bytes + kStreamAlignment - 1) / kStreamAlignment * kStreamAlignment;
}

struct ArrayWants {
  explicit ArrayWants(const WantedArray& array)
      : element_size(array.element_size),
        can_share(array.can_share),
        distinct(can_share ? DistinctBoxes(array.wants)
                           : std::vector<HeldBox>()),
        index(GetBoxes(distinct)) {}

  int64_t element_size;
  bool can_share;
  std::vector<HeldBox> distinct;
  BoxIndex index;
};

// Adds a read to the stream of its reader if other ranks want any of it.
void AddRead(const ArrayWants& wants, int32_t reader, ReadOrder& order,
             int64_t& stream_bytes, RestorePlan& plan) {
  if (!wants.can_share) return;
  const BoxIndex::Positions near = wants.index.Find(order.box);
  if (near.size() == 1 && wants.distinct[near[0]].holders.size() == 1) {
    const HeldShard& alone = wants.distinct[near[0]].holders[0];
    if (alone.rank == reader) {
      order.shard = alone.shard;  // joined rows may name another shard
      return;
    }
  }
  const int64_t bytes = NumElements(order.box.shape) * wants.element_size;
  order.position = stream_bytes;
  stream_bytes += Aligned(bytes);
  for (size_t i : near) {
    const HeldBox& held = wants.distinct[i];
    const int64_t wanted =
        NumElements(Intersect(held.box, order.box)->shape) * wants.element_size;
    for (const HeldShard& holder : held.holders) {
      if (holder.rank != reader) plan.delivered_bytes += wanted;
      plan.ranks[holder.rank].deliveries.push_back({.shard = holder.shard,
                                                    .reader = reader,
                                                    .position = order.position,
                                                    .bytes = bytes,
                                                    .box = order.box});
    }
  }
}

// Gives reads that several ranks want a position in a stream, and adds the
// deliveries. Requires that no two reads of an array overlap, that reads are in
// their final order, and that arrays[i] is array i of the plan.
void AddDeliveries(const std::vector<WantedArray>& arrays, RestorePlan& plan) {
  std::vector<ArrayWants> wants;
  wants.reserve(arrays.size());
  // For each rank, the position in `arrays` of each shard that is not empty.
  std::vector<absl::flat_hash_map<int32_t, size_t>> array_of(plan.ranks.size());
  for (const WantedArray& array : arrays) {
    for (const Want& want : array.wants) {
      array_of[want.rank][want.shard] = wants.size();
    }
    wants.emplace_back(array);
  }
  for (size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    int64_t stream_bytes = 0;
    for (ReadOrder& order : plan.ranks[rank].orders) {
      AddRead(wants[array_of[rank].at(order.shard)], static_cast<int32_t>(rank),
              order, stream_bytes, plan);
    }
    plan.stream_bytes = std::max(plan.stream_bytes, stream_bytes);
  }
  for (RankReads& reads : plan.ranks) {
    std::stable_sort(reads.deliveries.begin(), reads.deliveries.end(),
                     [](const Delivery& a, const Delivery& b) {
                       return a.position < b.position;
                     });
  }
}

constexpr char kNotTwice[] = "no byte is wanted twice";

// The reads of each array that can be shared. Other arrays have no reads here:
// each rank reads what it wants.
using Readings = std::vector<std::vector<Reading>>;

// Returns the first want of each distinct box, largest first, so that later
// boxes are often completely covered by earlier ones.
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

bool AreApart(const std::vector<Want>& wants) {
  std::vector<const Box*> boxes;
  boxes.reserve(wants.size());
  for (const Want& want : wants) boxes.push_back(&want.box);
  return BoxIndex(boxes).is_stack();
}

}  // namespace

std::vector<Reading> ReadByEachRank(const std::vector<Want>& wants) {
  std::vector<Reading> readings;
  readings.reserve(wants.size());
  if (AreApart(wants)) {
    for (const Want& want : wants) {
      readings.push_back({want.rank, want.shard, want.box});
    }
    return readings;
  }
  const std::vector<size_t> distinct = DistinctWants(wants);
  std::vector<const Box*> boxes;
  for (size_t i : distinct) boxes.push_back(&wants[i].box);
  const BoxIndex index(boxes);
  std::vector<std::vector<Box>> counting(wants.size());
  for (size_t k = 0; k < distinct.size(); ++k) {
    std::vector<Box>& parts = counting[distinct[k]];
    parts = {*boxes[k]};
    for (size_t earlier : index.Find(*boxes[k])) {
      if (earlier >= k || parts.empty()) break;
      parts = Without(parts, *boxes[earlier]);
    }
  }
  for (size_t i = 0; i < wants.size(); ++i) {
    const auto& [rank, shard, replica, box] = wants[i];
    std::vector<Box> rest = {box};
    for (Box& part : counting[i]) {
      rest = Without(rest, part);
      readings.push_back({rank, shard, std::move(part)});
    }
    for (Box& part : rest) {
      readings.push_back({rank, shard, std::move(part), false});
    }
  }
  return readings;
}

namespace {

// Returns reads that cover each byte once. Adds the number of requests saved by
// joining boxes into rows to `saved_requests`.
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
    readings[i].push_back({piece.rank, piece.shard, std::move(piece.box)});
  }
  return readings;
}

// Adds the reads of a rank for one shard, from every extent that holds a part
// of `box`.
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

// Adds reads to a plan that has no arrays and no orders yet.
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
                                     reading.shard, reading.box, reading.counts,
                                     plan));
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

// Returns the bytes that all ranks want, capped because a file can claim to be
// huge.
int64_t WantedBytes(const std::vector<WantedArray>& arrays) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  absl::uint128 bytes = 0;
  for (const WantedArray& array : arrays) {
    for (const Want& want : array.wants) {
      bytes += static_cast<uint64_t>(NumElements(want.box.shape) *
                                     array.element_size);
    }
  }
  return static_cast<int64_t>(std::min<absl::uint128>(bytes, kMax));
}

// Decides whether to use a plan that reads each byte once. Sets the plan's
// note.
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
      ListDatasets(saved, numbers, plan.filtered);
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
    // Most boxes overlap one or two of the stored datasets.
    plan.ranks[rank].orders.reserve(2 * wanted[rank].shards.size());
  }
  Readings own(wants.size());
  for (size_t i = 0; i < wants.size(); ++i) {
    if (wants[i].can_share) own[i] = ReadByEachRank(wants[i].wants);
  }
  BELAY_RETURN_IF_ERROR(AddReadings(saved, wants, stored, own, plan));
  return plan;
}

// --- Local reads ---

namespace {

using ToldShards = std::vector<ToldShard>;

// Describing an array to all ranks may take at most this many bytes per order
// that rank 0 would send otherwise. An order takes about 100 bytes.
constexpr int64_t kMaxToldPerOrder = 400;
// Own arrays must have at least this many times the bytes that rank 0 plans.
constexpr int64_t kLeastOwnToRest = 16;

int64_t CountWants(const ToldShard& told) {
  BoxesInRows rows;
  for (const int32_t rank : *told.ranks) {
    if (!rows.in_rows()) break;
    rows.Add(BoxOnRank(*told.shard, rank));
  }
  return rows.count();
}

// Counts the wants of an array; 0 if any byte may be wanted twice. Counts only
// once for all arrays of the same layout.
class WantCounts {
 public:
  int64_t Count(const ToldShards& told) {
    if (told.size() > 1) return CountSeveral(told);
    const ListedShard& shard = *told[0].shard;
    // The boxes of such arrays depend only on layout, ranks and shape.
    const bool is_divided =
        shard.place == Place::kLayout || shard.place == Place::kRows;
    if (!is_divided) return CountWants(told[0]);
    const auto [known, is_new] = known_.try_emplace(
        {shard.layout.get(), told[0].ranks, shard.info.global_shape}, 0);
    if (is_new) known->second = CountWants(told[0]);
    return known->second;
  }

 private:
  using Likeness = std::tuple<const Layout*, const void*, Shape>;

  // Counts the wants of an array that has several entries.
  int64_t CountSeveral(const ToldShards& told) {
    by_rank_.clear();
    for (const ToldShard& entry : told) {
      for (const int32_t rank : *entry.ranks) {
        by_rank_.emplace_back(rank, entry.shard);
      }
    }
    const auto is_before = [](const auto& a, const auto& b) {
      return a.first < b.first;
    };
    if (!std::is_sorted(by_rank_.begin(), by_rank_.end(), is_before)) {
      std::stable_sort(by_rank_.begin(), by_rank_.end(), is_before);
    }
    BoxesInRows rows;
    for (const auto& [rank, shard] : by_rank_) {
      if (!rows.in_rows()) break;
      if (shard->place == Place::kBox) {
        rows.Add(shard->info.box);
      } else {
        rows.Add(BoxOnRank(*shard, rank));
      }
    }
    return rows.count();
  }

  absl::flat_hash_map<Likeness, int64_t> known_;
  std::vector<std::pair<int32_t, const ListedShard*>> by_rank_;
};

struct Candidate {
  int32_t array = 0;
  StackedArray stacked;
  int64_t num_wants = 0;
  bool is_stack = true;
  std::vector<ToldShard> entries;  // that want it; `ranks` is not valid
};

// Returns the arrays whose bytes are wanted at most once each. Adds the bytes
// of all wanted arrays to `wanted_bytes`.
std::vector<Candidate> FindCandidates(const SavedCheckpoint& saved,
                                      const ListedRanks& listed,
                                      int64_t& wanted_bytes) {
  std::vector<std::string_view> keys;
  for (const StoredArray& array : saved.arrays) keys.push_back(array.key);
  KeyFinder arrays(std::move(keys));
  std::vector<Candidate> candidates;
  WantCounts counts;
  ForEachToldKey(listed, [&](const ToldShards& told) {
    const int32_t number = arrays.Find(told[0].shard->info.key);
    if (number < 0) return;
    const StoredArray& array = saved.arrays[number];
    wanted_bytes += ArrayBytes(array);
    // True if all entries are valid and want the array as it is stored.
    const bool is_sound =
        array.dtype != DType::kString &&
        std::all_of(told.begin(), told.end(), [&](const ToldShard& entry) {
          const auto& [info, place, layout, num_ranks] = *entry.shard;
          return info.dtype == array.dtype &&
                 info.global_shape == array.shape &&
                 (place != Place::kBox || CheckBox(info.box, array.shape).ok());
        });
    const int64_t num_wants = is_sound ? counts.Count(told) : 0;
    if (num_wants == 0) return;
    candidates.push_back({.array = number,
                          .stacked = StackedArray(array),
                          .num_wants = num_wants,
                          .entries = told});
  });
  return candidates;
}

// Keeps the candidates whose datasets are a stack.
void StackDatasets(const SavedCheckpoint& saved,
                   std::vector<Candidate>& candidates) {
  if (candidates.empty()) return;
  std::vector<int32_t> candidate_of(saved.arrays.size(), -1);
  for (size_t i = 0; i < candidates.size(); ++i) {
    candidate_of[candidates[i].array] = static_cast<int32_t>(i);
  }
  for (const StoredDataset& dataset : saved.datasets) {
    const int32_t found = candidate_of[dataset.array];
    if (found < 0 || !candidates[found].is_stack) continue;
    candidates[found].is_stack = candidates[found].stacked.Add(dataset);
  }
  std::erase_if(candidates, [](const Candidate& one) {
    return !one.is_stack || !one.stacked.is_whole();
  });
}

// Selects all entries except those of the candidates.
RankSelection AllBut(const ListedRanks& listed,
                     const std::vector<Candidate>& candidates) {
  std::vector<std::vector<bool>> is_own(listed.lists.size());
  for (size_t list = 0; list < listed.lists.size(); ++list) {
    is_own[list].resize(listed.lists[list].shards.size());
  }
  for (const Candidate& candidate : candidates) {
    for (const ToldShard& one : candidate.entries) {
      is_own[one.list][one.entry] = true;
    }
  }
  RankSelection rest(listed.lists.size());
  for (size_t list = 0; list < listed.lists.size(); ++list) {
    for (size_t i = 0; i < is_own[list].size(); ++i) {
      if (!is_own[list][i]) rest[list].push_back(static_cast<int32_t>(i));
    }
  }
  return rest;
}

void ListRest(const ListedRanks& listed, const RankSelection& rest,
              DividedWants& wants) {
  wants.central.resize(listed.ranks.size());
  wants.numbers.resize(listed.ranks.size());
  for (size_t i = 0; i < listed.ranks.size(); ++i) {
    const auto rank = static_cast<int>(i);
    wants.central[i].node = listed.lists[listed.ranks[i].own].node;
    ForEachSelected(listed, rest, rank,
                    [&](const ListedShard& shard, int32_t number) {
                      wants.central[i].shards.push_back(OnRank(shard, rank));
                      wants.numbers[i].push_back(number);
                    });
  }
}

}  // namespace

DividedWants DivideWants(const SavedCheckpoint& saved,
                         const ListedRanks& listed, Dividing dividing) {
  std::vector<Candidate> candidates;
  int64_t wanted_bytes = 0;
  if (dividing != Dividing::kNothing) {
    candidates = FindCandidates(saved, listed, wanted_bytes);
    StackDatasets(saved, candidates);
  }
  if (dividing == Dividing::kWhatPays) {
    int64_t own_bytes = 0;
    std::erase_if(candidates, [&](const Candidate& one) {
      const int64_t told = one.stacked.told_bytes() * std::ssize(listed.ranks);
      const int64_t orders = one.num_wants + one.stacked.num_datasets();
      if (told > kMaxToldPerOrder * orders) return true;
      own_bytes += ArrayBytes(saved.arrays[one.array]);
      return false;
    });
    // If rank 0 has much else to plan, it plans all reads to balance them.
    if (wanted_bytes - own_bytes > own_bytes / kLeastOwnToRest) {
      candidates.clear();
    }
  }
  DividedWants wants;
  ListRest(listed, AllBut(listed, candidates), wants);
  const auto is_before = [](const Candidate& a, const Candidate& b) {
    return a.array < b.array;
  };
  if (!std::is_sorted(candidates.begin(), candidates.end(), is_before)) {
    std::sort(candidates.begin(), candidates.end(), is_before);
  }
  wants.stacked.reserve(candidates.size());
  for (Candidate& candidate : candidates) {
    wants.own.push_back(candidate.array);
    wants.stacked.push_back(std::move(candidate.stacked));
  }
  return wants;
}

void AddLocalArrays(const SavedCheckpoint& saved, DividedWants& wants,
                    RestorePlan& plan) {
  for (size_t rank = 0; rank < plan.ranks.size(); ++rank) {
    const std::vector<int32_t>& numbers = wants.numbers[rank];
    RankReads& reads = plan.ranks[rank];
    for (ReadOrder& order : reads.orders) order.shard = numbers[order.shard];
    for (TextLength& text : reads.texts) text.shard = numbers[text.shard];
    for (Delivery& one : reads.deliveries) one.shard = numbers[one.shard];
  }
  for (size_t i = 0; i < wants.own.size(); ++i) {
    plan.arrays.push_back(wants.own[i]);
    plan.first_blocks.push_back(plan.num_blocks);
    wants.stacked[i].set_first_block(plan.num_blocks);
    plan.num_blocks += NumBlocks(ArrayBytes(saved.arrays[wants.own[i]]));
  }
}

void AddLocalReads(const std::vector<StackedArray>& stacked,
                   const std::vector<WantedBox>& wanted, RankReads& reads) {
  if (stacked.empty()) return;
  std::vector<std::string_view> keys;
  for (const StackedArray& array : stacked) keys.push_back(array.key());
  KeyFinder arrays(std::move(keys));
  for (size_t i = 0; i < wanted.size(); ++i) {
    const int32_t array = arrays.Find(wanted[i].key);
    if (array < 0 || IsEmpty(*wanted[i].box)) continue;
    stacked[array].AddReads(static_cast<int32_t>(i), *wanted[i].box,
                            reads.orders);
  }
  SortReads(reads.orders);
}

}  // namespace belay
