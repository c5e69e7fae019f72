#include "model/own_reads.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "base/checksum.h"
#include "model/read_place.h"
#include "model/shared_reads.h"

namespace belay {
namespace {

using ToldShards = std::vector<ToldShard>;

// Whether an entry is sound, and wants the array as it is stored.
bool WantsAsStored(const ListedShard& shard, const StoredArray& array) {
  return shard.info.dtype == array.dtype && array.dtype != DType::kString &&
         shard.info.global_shape == array.shape &&
         (shard.place != Place::kBox ||
          CheckBox(shard.info.box, array.shape).ok());
}

// The boxes that ranks want of one array, by rank, without empty ones.
std::vector<Want> WantsOf(const ToldShards& told) {
  std::vector<Want> wants;
  for (const ToldShard& entry : told) {
    for (const int32_t rank : *entry.ranks) {
      Box box = BoxOnRank(*entry.shard, rank);
      if (!IsEmpty(box)) wants.push_back({.rank = rank, .box = std::move(box)});
    }
  }
  if (told.size() > 1) {
    std::stable_sort(
        wants.begin(), wants.end(),
        [](const Want& a, const Want& b) { return a.rank < b.rank; });
  }
  return wants;
}

// Finds out whether no byte of an array is wanted twice; of arrays that are
// laid out alike once.
class Apartness {
 public:
  bool Has(const ToldShards& told) {
    const ListedShard& first = *told[0].shard;
    if (told.size() > 1 || first.place != Place::kLayout) return Find(told);
    const auto [known, is_new] = known_.try_emplace(
        {first.layout.get(), told[0].ranks, first.info.global_shape}, false);
    if (is_new) known->second = Find(told);
    return known->second;
  }

 private:
  using Likeness = std::tuple<const Layout*, const void*, Shape>;

  static bool Find(const ToldShards& told) {
    const std::vector<Want> wants = WantsOf(told);
    return !wants.empty() && !CanShare(wants);
  }

  absl::flat_hash_map<Likeness, bool> known_;
};

// An array that may be an own one.
struct Candidate {
  StackedArray stacked;
  bool is_stack = true;
  std::vector<const ListedShard*> entries;  // that want it
};

// By number of the array; those that are wanted, each byte at most once.
using Candidates = absl::flat_hash_map<int32_t, Candidate>;

Candidates FindCandidates(const SavedCheckpoint& saved,
                          const ListedRanks& listed) {
  absl::flat_hash_map<std::string_view, int32_t> numbers;
  for (size_t i = 0; i < saved.arrays.size(); ++i) {
    numbers.emplace(saved.arrays[i].key, static_cast<int32_t>(i));
  }
  Candidates candidates;
  Apartness apart;
  ForEachToldKey(listed, [&](const ToldShards& told) {
    const auto number = numbers.find(told[0].shard->info.key);
    if (number == numbers.end()) return;
    const StoredArray& array = saved.arrays[number->second];
    const bool is_sound =
        std::all_of(told.begin(), told.end(), [&](const ToldShard& entry) {
          return WantsAsStored(*entry.shard, array);
        });
    if (!is_sound || !apart.Has(told)) return;
    Candidate& candidate = candidates[number->second];
    candidate.stacked = StackedArray(array);
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

// What rank 0 plans: all but the entries `own`.
void ListRest(const ListedRanks& listed,
              const absl::flat_hash_set<const ListedShard*>& own,
              DividedWants& wants) {
  size_t entries = 0;
  for (const ShardList& list : listed.lists) entries += list.shards.size();
  wants.central.resize(listed.ranks.size());
  wants.numbers.resize(listed.ranks.size());
  for (size_t rank = 0; rank < listed.ranks.size(); ++rank) {
    wants.central[rank].node = listed.lists[listed.ranks[rank].own].node;
    if (own.size() == entries) continue;
    const auto number_of_rank = static_cast<int>(rank);
    ForEachShard(
        listed, number_of_rank, [&](const ListedShard& shard, int32_t number) {
          if (own.contains(&shard)) return;
          wants.central[rank].shards.push_back(OnRank(shard, number_of_rank));
          wants.numbers[rank].push_back(number);
        });
  }
}

}  // namespace

DividedWants DivideWants(const SavedCheckpoint& saved,
                         const ListedRanks& listed, bool may_divide) {
  Candidates candidates;
  if (may_divide) candidates = FindCandidates(saved, listed);
  StackDatasets(saved, candidates);
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

void AddOwnArrays(const SavedCheckpoint& saved, DividedWants& wants,
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

void AddOwnReads(const std::vector<StackedArray>& stacked,
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
