#include "plan/local_reads.h"

#include <tuple>

#include "absl/container/flat_hash_map.h"
#include "core/checksum.h"
#include "core/keys.h"
#include "core/strided_copy.h"
#include "plan/restore_planner.h"

namespace belay {
namespace {

// Returns 0 if two boxes differ along `axis` only, else their order.
int CompareBut(size_t axis, const Box& a, const Box& b) {
  for (size_t i = 0; i < a.offset.size(); ++i) {
    if (i == axis) continue;
    const auto mine = std::tie(a.offset[i], a.shape[i]);
    const auto its = std::tie(b.offset[i], b.shape[i]);
    if (mine != its) return mine < its ? -1 : 1;
  }
  return 0;
}

bool IsNext(size_t axis, const Box& a, const Box& b) {
  return CompareBut(axis, a, b) == 0 &&
         a.offset[axis] + a.shape[axis] == b.offset[axis];
}

void JoinAlong(size_t axis, std::vector<HeldBox>& boxes) {
  std::sort(
      boxes.begin(), boxes.end(), [&](const HeldBox& a, const HeldBox& b) {
        const int order = CompareBut(axis, a.box, b.box);
        return order != 0 ? order < 0 : a.box.offset[axis] < b.box.offset[axis];
      });
  size_t last = 0;
  for (size_t i = 1; i < boxes.size(); ++i) {
    if (!IsNext(axis, boxes[last].box, boxes[i].box)) {
      if (++last != i) boxes[last] = std::move(boxes[i]);
      continue;
    }
    HeldBox& joined = boxes[last];
    joined.box.shape[axis] += boxes[i].box.shape[axis];
    joined.holders.insert(joined.holders.end(), boxes[i].holders.begin(),
                          boxes[i].holders.end());
  }
  boxes.resize(last + 1);
}

// Returns whether all boxes have the same place along all axes but the first,
// so that none lie side by side.
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

int64_t CountElements(const std::vector<HeldBox>& boxes) {
  int64_t elements = 0;
  for (const HeldBox& held : boxes) elements += NumElements(held.box.shape);
  return elements;
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
  const int64_t bytes = CountElements(boxes) * element_size;
  if (saved <= 0 || bytes / kBytesPerRequest > saved) return 0;
  boxes = std::move(joined);
  return saved;
}

// --- Local reads ---

namespace {

using ToldShards = std::vector<ToldShard>;

// Telling all ranks of an array may take so many bytes per order that rank 0
// would send otherwise, which takes about 100.
constexpr int64_t kMostToldPerOrder = 400;
// Own arrays have at least so many times the bytes that rank 0 plans.
constexpr int64_t kLeastOwnToRest = 16;

// Returns whether an entry is valid, and wants the array as it is stored.
bool WantsAsStored(const ListedShard& shard, const StoredArray& array) {
  return shard.info.dtype == array.dtype && array.dtype != DType::kString &&
         shard.info.global_shape == array.shape &&
         (shard.place != Place::kBox ||
          CheckBox(shard.info.box, array.shape).ok());
}

int64_t CountWants(const ToldShard& told) {
  BoxesInRows rows;
  for (const int32_t rank : *told.ranks) {
    if (!rows.in_rows()) break;
    rows.Add(BoxOnRank(*told.shard, rank));
  }
  return rows.count();
}

// Counts the wants of an array, 0 if any byte is wanted twice. Counts once for
// arrays of the same layout.
class WantCounts {
 public:
  int64_t Of(const ToldShards& told) {
    if (told.size() > 1) return CountSeveral(told);
    const ListedShard& shard = *told[0].shard;
    // Rows of all ranks have one division.
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

  // Counts for an array that several entries want.
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
  std::vector<ToldShard> entries;  // that want it; not the ranks
};

// Returns the arrays of which each byte is wanted at most once. Adds the bytes
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
    const bool is_sound =
        std::all_of(told.begin(), told.end(), [&](const ToldShard& entry) {
          return WantsAsStored(*entry.shard, array);
        });
    const int64_t num_wants = is_sound ? counts.Of(told) : 0;
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

// Keeps the candidates that take hardly more bytes to tell all ranks than
// orders for those who want them.
void LeaveShort(size_t num_ranks, std::vector<Candidate>& candidates) {
  std::erase_if(candidates, [&](const Candidate& one) {
    const int64_t told =
        one.stacked.told_bytes() * static_cast<int64_t>(num_ranks);
    return told >
           kMostToldPerOrder * (one.num_wants + one.stacked.num_datasets());
  });
}

// Returns whether rank 0 has little else to plan. If it has much, it had better
// level the reads of all arrays.
bool AreMost(const SavedCheckpoint& saved,
             const std::vector<Candidate>& candidates, int64_t wanted_bytes) {
  int64_t own = 0;
  for (const Candidate& candidate : candidates) {
    own += ArrayBytes(saved.arrays[candidate.array]);
  }
  return wanted_bytes - own <= own / kLeastOwnToRest;
}

// Selects all entries but those of the candidates.
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
    LeaveShort(listed.ranks.size(), candidates);
    if (!AreMost(saved, candidates, wanted_bytes)) candidates.clear();
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
