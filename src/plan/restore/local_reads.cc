#include "plan/restore/local_reads.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "bytes/checksum.h"
#include "plan/restore/parts_to_read.h"
#include "plan/restore/sort_reads.h"

namespace belay {
namespace {

using ToldShards = std::vector<ToldShard>;

// Tells all ranks of an array may take so many bytes for each order that
// rank 0 would send otherwise. An order takes about 100.
constexpr int64_t kMostToldPerOrder = 400;
// Own arrays have at least so many times the bytes of what rank 0 plans.
constexpr int64_t kLeastOwnToRest = 16;

// Whether an entry is sound, and wants the array as it is stored.
bool WantsAsStored(const ListedShard& shard, const StoredArray& array) {
  return shard.info.dtype == array.dtype && array.dtype != DType::kString &&
         shard.info.global_shape == array.shape &&
         (shard.place != Place::kBox ||
          CheckBox(shard.info.box, array.shape).ok());
}

// Of an array that several entries want.
int64_t CountOfSeveral(const ToldShards& told) {
  std::vector<std::pair<int32_t, const ListedShard*>> by_rank;
  for (const ToldShard& entry : told) {
    for (const int32_t rank : *entry.ranks) {
      by_rank.emplace_back(rank, entry.shard);
    }
  }
  std::stable_sort(
      by_rank.begin(), by_rank.end(),
      [](const auto& a, const auto& b) { return a.first < b.first; });
  BoxesInRows rows;
  for (const auto& [rank, shard] : by_rank) {
    if (rows.in_rows()) rows.Add(BoxOnRank(*shard, rank));
  }
  return rows.count();
}

int64_t CountOfOne(const ToldShard& told) {
  BoxesInRows rows;
  for (const int32_t rank : *told.ranks) {
    if (!rows.in_rows()) break;
    rows.Add(BoxOnRank(*told.shard, rank));
  }
  return rows.count();
}

// Counts the wants of an array of which no byte is wanted twice, else 0; of
// arrays that are laid out alike once.
class WantCounts {
 public:
  int64_t Of(const ToldShards& told) {
    if (told.size() > 1) return CountOfSeveral(told);
    const ListedShard& shard = *told[0].shard;
    if (shard.place != Place::kLayout) return CountOfOne(told[0]);
    const auto [known, is_new] = known_.try_emplace(
        {shard.layout.get(), told[0].ranks, shard.info.global_shape}, 0);
    if (is_new) known->second = CountOfOne(told[0]);
    return known->second;
  }

 private:
  using Likeness = std::tuple<const Layout*, const void*, Shape>;

  absl::flat_hash_map<Likeness, int64_t> known_;
};

// An array that may be an own one.
struct Candidate {
  StackedArray stacked;
  int64_t num_wants = 0;
  bool is_stack = true;
  std::vector<const ListedShard*> entries;  // that want it
};

// By number of the array; those that are wanted, each byte at most once.
using Candidates = absl::flat_hash_map<int32_t, Candidate>;

// Adds the bytes of all wanted arrays to `wanted_bytes`.
Candidates FindCandidates(const SavedCheckpoint& saved,
                          const ListedRanks& listed, int64_t& wanted_bytes) {
  absl::flat_hash_map<std::string_view, int32_t> numbers;
  for (size_t i = 0; i < saved.arrays.size(); ++i) {
    numbers.emplace(saved.arrays[i].key, static_cast<int32_t>(i));
  }
  Candidates candidates;
  WantCounts counts;
  ForEachToldKey(listed, [&](const ToldShards& told) {
    const auto number = numbers.find(told[0].shard->info.key);
    if (number == numbers.end()) return;
    const StoredArray& array = saved.arrays[number->second];
    wanted_bytes += ArrayBytes(array);
    const bool is_sound =
        std::all_of(told.begin(), told.end(), [&](const ToldShard& entry) {
          return WantsAsStored(*entry.shard, array);
        });
    const int64_t num_wants = is_sound ? counts.Of(told) : 0;
    if (num_wants == 0) return;
    Candidate& candidate = candidates[number->second];
    candidate.stacked = StackedArray(array);
    candidate.num_wants = num_wants;
    for (const ToldShard& entry : told) {
      candidate.entries.push_back(entry.shard);
    }
  });
  return candidates;
}

// Leaves those of which all datasets are a stack.
void StackDatasets(const SavedCheckpoint& saved, Candidates& candidates) {
  if (candidates.empty()) return;
  // Datasets come by array.
  auto array = candidates.end();
  for (const StoredDataset& dataset : saved.datasets) {
    if (array == candidates.end() || array->first != dataset.array) {
      array = candidates.find(dataset.array);
    }
    if (array == candidates.end() || !array->second.is_stack) continue;
    array->second.is_stack = array->second.stacked.Add(dataset);
  }
  absl::erase_if(candidates, [](const auto& one) {
    return !one.second.is_stack || !one.second.stacked.is_whole();
  });
}

// Leaves those of which all ranks are told in hardly more bytes than orders for
// those who want them would take.
void LeaveShort(size_t num_ranks, Candidates& candidates) {
  absl::erase_if(candidates, [&](const auto& entry) {
    const Candidate& one = entry.second;
    const int64_t told =
        one.stacked.told_bytes() * static_cast<int64_t>(num_ranks);
    return told >
           kMostToldPerOrder * (one.num_wants + one.stacked.num_datasets());
  });
}

// Whether rank 0 has little else to plan, of so many bytes that are wanted. If
// it has much, it chooses who reads so that all read equally much, of all
// arrays.
bool AreMost(const SavedCheckpoint& saved, const Candidates& candidates,
             int64_t wanted_bytes) {
  int64_t own = 0;
  for (const auto& [array, candidate] : candidates) {
    own += ArrayBytes(saved.arrays[array]);
  }
  return wanted_bytes - own <= own / kLeastOwnToRest;
}

// What rank 0 plans: all but the entries `own`.
void ListRest(const ListedRanks& listed,
              const absl::flat_hash_set<const ListedShard*>& own,
              DividedWants& wants) {
  Selection rest(listed.lists.size());
  for (size_t list = 0; list < listed.lists.size(); ++list) {
    const std::vector<ListedShard>& shards = listed.lists[list].shards;
    for (size_t i = 0; i < shards.size(); ++i) {
      if (own.contains(&shards[i])) continue;
      rest[list].push_back(static_cast<int32_t>(i));
    }
  }
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
  Candidates candidates;
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
  absl::flat_hash_set<const ListedShard*> own;
  for (const auto& [array, candidate] : candidates) {
    wants.own.push_back(array);
    own.insert(candidate.entries.begin(), candidate.entries.end());
  }
  std::sort(wants.own.begin(), wants.own.end());
  for (const int32_t array : wants.own) {
    wants.stacked.push_back(std::move(candidates.at(array).stacked));
  }
  ListRest(listed, own, wants);
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
  absl::flat_hash_map<std::string_view, const StackedArray*> by_key;
  for (const StackedArray& array : stacked) by_key.emplace(array.key(), &array);
  for (size_t i = 0; i < wanted.size(); ++i) {
    const auto array = by_key.find(wanted[i].key);
    if (array == by_key.end() || IsEmpty(*wanted[i].box)) continue;
    array->second->AddReads(static_cast<int32_t>(i), *wanted[i].box,
                            reads.orders);
  }
  SortReads(reads.orders);
}

}  // namespace belay
