#include "plan/listed_ranks.h"

#include <span>
#include <tuple>

#include "absl/container/flat_hash_map.h"
#include "core/status_macros.h"

namespace belay {

void Progressions::Append(int64_t value) {
  const int64_t position = size_++;
  if (!runs_.empty()) {
    Run& last = runs_.back();
    if (last.count == 1) last.step = value - last.first;
    if (value - last.Last() == last.step) {
      ++last.count;
      return;
    }
  }
  runs_.push_back({.begin = position, .first = value, .step = 0, .count = 1});
}

int64_t Progressions::operator[](int64_t position) const {
  const auto after = std::partition_point(
      runs_.begin(), runs_.end(),
      [&](const Run& run) { return run.begin <= position; });
  const Run& run = *(after - 1);
  return run.first + run.step * (position - run.begin);
}

int64_t Progressions::UpperBound(int64_t value) const {
  const auto run =
      std::partition_point(runs_.begin(), runs_.end(),
                           [&](const Run& one) { return one.Last() <= value; });
  if (run == runs_.end()) return size_;
  if (value < run->first) return run->begin;
  return run->begin + (value - run->first) / run->step + 1;
}

// --- Description ---

namespace {

// The first byte of an entry is kJob, kNode or kValue, or the Place of a shard
// combined with any of the other flags.
constexpr uint8_t kOnAllRanks = 8;
constexpr uint8_t kHasDevice = 16;
constexpr uint8_t kHasFields = 32;
constexpr uint8_t kFromRank0 = 64;
constexpr uint8_t kJob = 253;
constexpr uint8_t kNode = 254;
constexpr uint8_t kValue = 255;

using Layouts = absl::flat_hash_map<std::string, std::shared_ptr<const Layout>>;

// Returns null for a text that is not a layout: callers may pass any text.
std::shared_ptr<const Layout> ParseLayout(const std::string& text,
                                          Layouts& known) {
  const auto [found, is_new] = known.try_emplace(text);
  if (is_new) {
    StatusOr<Layout> layout = Layout::Parse(text);
    if (layout.ok()) {
      found->second = std::make_shared<const Layout>(*std::move(layout));
    }
  }
  return found->second;
}

bool LiesAsLaidOut(const ShardInfo& shard, int rank, Layouts& layouts) {
  if (shard.layout.empty()) return false;
  const std::shared_ptr<const Layout> layout =
      ParseLayout(shard.layout, layouts);
  if (layout == nullptr) return false;
  const StatusOr<Box> box = layout->LocalBox(shard.global_shape, rank);
  return box.ok() && *box == shard.box &&
         layout->Replica(rank) == shard.replica;
}

// Returns the rows of a rank if all rows are divided evenly. Requires an axis.
Box EvenRows(const Shape& shape, int rank, int num_ranks) {
  Box box = WholeBox(shape);
  box.offset[0] = FirstOfEven(shape[0], rank, num_ranks);
  box.shape[0] = FirstOfEven(shape[0], rank + 1, num_ranks) - box.offset[0];
  return box;
}

Place FindPlace(const ShardInfo& shard, int rank, int num_ranks,
                Layouts& layouts) {
  if (LiesAsLaidOut(shard, rank, layouts)) return Place::kLayout;
  const Shape& shape = shard.global_shape;
  if (shard.replica == rank && shard.box == WholeBox(shape)) {
    return Place::kWhole;
  }
  const bool has_rows = shard.replica == 0 && !shape.empty() &&
                        shard.box == EvenRows(shape, rank, num_ranks);
  return has_rows ? Place::kRows : Place::kBox;
}

WireWriter BeginEntry(const ShardInfo& shard, Place place) {
  WireWriter out;
  const bool has_device = !shard.device.empty();
  const bool has_fields = !shard.fields.empty();
  out.Put<uint8_t>(static_cast<uint8_t>(place) | (has_device ? kHasDevice : 0) |
                   (has_fields ? kHasFields : 0) |
                   (shard.on_all_ranks ? kOnAllRanks : 0) |
                   (shard.from_rank0 ? kFromRank0 : 0));
  out(shard.key, shard.dtype, shard.global_shape, shard.string_bytes,
      shard.layout);
  if (has_device) out.PutText(shard.device);
  if (has_fields) out.PutText(shard.fields);
  return out;
}

template <typename T>
std::string EncodeEntry(uint8_t kind, const T& value) {
  WireWriter out;
  out(kind, value);
  return out.Take();
}

ListedShard GetShard(Place place, uint8_t begin, WireReader& in,
                     Layouts& layouts) {
  ListedShard shard{.place = place};
  in(shard.info.key, shard.info.dtype, shard.info.global_shape,
     shard.info.string_bytes, shard.info.layout);
  if ((begin & kHasDevice) != 0) shard.info.device = in.GetText();
  if ((begin & kHasFields) != 0) shard.info.fields = in.GetText();
  shard.info.from_rank0 = (begin & kFromRank0) != 0;
  shard.info.on_all_ranks = (begin & kOnAllRanks) != 0;
  if (place == Place::kLayout) {
    shard.layout = ParseLayout(shard.info.layout, layouts);
  } else if (place == Place::kRows) {
    shard.num_ranks = in.Get<int32_t>();
  }
  return shard;
}

// Returns true if the entry is valid.
bool AddEntry(std::string_view entry, Layouts& layouts, ShardList& list) {
  WireReader in(entry);
  const auto begin = in.Get<uint8_t>();
  if (begin == kValue) in(list.values.emplace_back());
  if (begin == kNode) in(list.node);
  if (begin == kJob) in(list.job);
  if (begin >= kJob) return in.ok() && in.done();
  const uint8_t place =
      begin & ~(kOnAllRanks | kHasDevice | kHasFields | kFromRank0);
  if (place > static_cast<uint8_t>(Place::kRows)) return false;
  ListedShard shard = GetShard(Place{place}, begin, in, layouts);
  if (shard.place == Place::kLayout && shard.layout == nullptr) return false;
  if (shard.place == Place::kRows &&
      (shard.num_ranks <= 0 || shard.info.global_shape.empty())) {
    return false;
  }
  if (shard.place == Place::kBox) {
    const int64_t last = list.before.empty() ? 0 : list.before.back();
    const auto skipped = in.Get<int64_t>();
    if (skipped < 0 || skipped > INT64_MAX - last) return false;
    list.before.push_back(last + skipped);
    in(shard.info.box.offset, shard.info.box.shape, shard.info.replica);
  }
  list.shards.push_back(std::move(shard));
  return in.ok() && in.done();
}

}  // namespace

Description Describe(const RankShards& mine, int rank, int num_ranks) {
  Description description;
  Layouts layouts;
  uint64_t skipped = 0;  // shared entries since the last own entry
  for (const ShardInfo& shard : mine.shards) {
    const Place place = FindPlace(shard, rank, num_ranks, layouts);
    WireWriter entry = BeginEntry(shard, place);
    if (place == Place::kBox) {
      // The planner checks the box, whose offset and shape may differ in
      // length.
      entry(skipped, shard.box.offset, shard.box.shape, shard.replica);
      description.own.push_back(entry.Take());
      skipped = 0;
      continue;
    }
    if (place == Place::kRows) entry.Put<int32_t>(num_ranks);
    description.shared.push_back(entry.Take());
    ++skipped;
  }
  if (mine.node != 0) description.own.push_back(EncodeEntry(kNode, mine.node));
  if (mine.job != kDefaultJob)
    description.shared.push_back(EncodeEntry(kJob, mine.job));
  for (const ListedValue& value : mine.values) {
    description.shared.push_back(EncodeEntry(kValue, value));
  }
  return description;
}

StatusOr<ShardList> DecodeList(const Entries& entries) {
  ShardList list;
  Layouts layouts;
  list.shards.reserve(entries.size());
  for (size_t i = 0; i < entries.size(); ++i) {
    if (AddEntry(entries[i], layouts, list)) continue;
    return absl::InternalError(
        Cat("entry ", i, " of ", entries.size(), " describes nothing"));
  }
  return list;
}

Box BoxOnRank(const ListedShard& listed, int rank) {
  switch (listed.place) {
    case Place::kLayout:
      return *listed.layout->LocalBox(listed.info.global_shape, rank);
    case Place::kWhole:
      return WholeBox(listed.info.global_shape);
    case Place::kRows:
      return EvenRows(listed.info.global_shape, rank, listed.num_ranks);
    case Place::kBox:
      break;
  }
  return listed.info.box;
}

ShardInfo OnRank(const ListedShard& listed, int rank) {
  ShardInfo info = listed.info;
  info.box = BoxOnRank(listed, rank);
  if (listed.place == Place::kLayout) {
    info.replica = listed.layout->Replica(rank);
  } else if (listed.place == Place::kWhole) {
    info.replica = rank;
  }
  return info;
}

// --- Listed ranks ---

namespace {

struct Row {
  int32_t list = 0;
  int32_t shard = 0;
};

// A range of RowsByKey::rows.
struct KeyRows {
  std::string_view key;
  int64_t begin = 0;
  int64_t count = 0;
};

// The entries of all lists, grouped by key.
struct RowsByKey {
  std::vector<KeyRows> keys;  // ascending
  std::vector<Row> rows;

  std::span<const Row> Of(const KeyRows& key) const {
    return std::span(rows).subspan(key.begin, key.count);
  }
};

// Numbers the keys in order of first appearance.
class KeyNumbers {
 public:
  // Adds the entries of the next list. Returns the key number of each entry.
  std::vector<int32_t> Add(const std::vector<ListedShard>& shards) {
    if (keys_.empty()) {
      numbers_.reserve(shards.size());
      keys_.reserve(shards.size());
    }
    std::vector<int32_t> of_list(shards.size());
    for (size_t i = 0; i < shards.size(); ++i) {
      of_list[i] = Add(shards[i].info.key, i);
    }
    last_.resize(std::max(last_.size(), of_list.size()));
    std::copy(of_list.begin(), of_list.end(), last_.begin());
    return of_list;
  }

  std::vector<KeyRows> TakeKeys() { return std::move(keys_); }

 private:
  // Most lists have the same keys in the same order.
  int32_t Add(std::string_view key, size_t i) {
    int32_t number = i < last_.size() ? last_[i] : -1;
    if (number < 0 || keys_[number].key != key) {
      const auto [it, is_new] =
          numbers_.try_emplace(key, static_cast<int32_t>(keys_.size()));
      if (is_new) keys_.push_back({.key = key});
      number = it->second;
    }
    ++keys_[number].count;
    return number;
  }

  std::vector<KeyRows> keys_;
  absl::flat_hash_map<std::string_view, int32_t> numbers_;
  std::vector<int32_t> last_;  // the latest key number per list position
};

RowsByKey GroupByKey(const std::vector<ShardList>& lists) {
  KeyNumbers numbers;
  std::vector<std::vector<int32_t>> key_of;  // per list and entry
  for (const ShardList& list : lists)
    key_of.push_back(numbers.Add(list.shards));
  RowsByKey all{.keys = numbers.TakeKeys()};
  std::vector<int64_t> next;  // the next row of each key
  int64_t num_rows = 0;
  for (KeyRows& key : all.keys) {
    key.begin = num_rows;
    next.push_back(num_rows);
    num_rows += key.count;
  }
  all.rows.resize(num_rows);
  for (size_t list = 0; list < lists.size(); ++list) {
    for (size_t i = 0; i < key_of[list].size(); ++i) {
      all.rows[next[key_of[list][i]]++] = {static_cast<int32_t>(list),
                                           static_cast<int32_t>(i)};
    }
  }
  const auto by_key = [](const KeyRows& a, const KeyRows& b) {
    return a.key < b.key;
  };
  if (!std::is_sorted(all.keys.begin(), all.keys.end(), by_key)) {
    std::sort(all.keys.begin(), all.keys.end(), by_key);
  }
  return all;
}

// Return the position of shared shard i, and of own shard i, among the shards
// that the rank listed.
int32_t FindSharedPlace(const ShardList& own, int32_t i) {
  const auto end = std::upper_bound(own.before.begin(), own.before.end(), i);
  return i + static_cast<int32_t>(end - own.before.begin());
}
int32_t FindOwnPlace(const ShardList& own, int32_t i) {
  return static_cast<int32_t>(own.before[i]) + i;
}

// A shard of a key whose `info` is not set yet.
struct HeldEntry {
  HeldShard held;
  const ListedShard* shard = nullptr;
};

// Lists the shards of one key on all ranks, by rank and position.
void ListHolders(const ListedRanks& listed, const std::vector<ToldShard>& told,
                 std::vector<HeldEntry>& held) {
  held.clear();
  for (const ToldShard& one : told) {
    const bool is_own = one.shard->place == Place::kBox;
    for (const int32_t rank : *one.ranks) {
      const ShardList& own = listed.lists[listed.ranks[rank].own];
      const int32_t place = is_own ? FindOwnPlace(own, one.entry)
                                   : FindSharedPlace(own, one.entry);
      held.push_back({{rank, place}, one.shard});
    }
  }
  const auto is_before = [](const HeldEntry& a, const HeldEntry& b) {
    return std::tie(a.held.rank, a.held.shard) <
           std::tie(b.held.rank, b.held.shard);
  };
  if (!std::is_sorted(held.begin(), held.end(), is_before)) {
    std::sort(held.begin(), held.end(), is_before);
  }
}

}  // namespace

StatusOr<ListedRanks> ListRanks(const Heard& heard) {
  ListedRanks listed;
  absl::flat_hash_map<Hash128, int32_t> rows;
  for (const std::vector<Hash128>& lists : heard.ranks) {
    for (const Hash128& list : lists) {
      const auto row = static_cast<int32_t>(rows.size());
      if (!rows.try_emplace(list, row).second) continue;
      BELAY_ASSIGN_OR_RETURN(listed.lists.emplace_back(),
                             DecodeList(heard.lists.at(list)));
    }
    listed.ranks.push_back({.shared = rows[lists[0]], .own = rows[lists[1]]});
  }
  return listed;
}

std::vector<int32_t> ListNodes(const ListedRanks& listed) {
  std::vector<int32_t> nodes;
  for (const RankLists& rank : listed.ranks) {
    nodes.push_back(listed.lists[rank.own].node);
  }
  return nodes;
}

RankShards GetRankShards(const ListedRanks& listed, int rank) {
  const RankLists& lists = listed.ranks[rank];
  const ShardList& shared = listed.lists[lists.shared];
  const ShardList& own = listed.lists[lists.own];
  RankShards all{.node = own.node,
                 .shards = {},
                 .values = shared.values,
                 .job = shared.job};
  size_t next = 0;
  for (size_t i = 0; i < own.shards.size(); ++i) {
    for (; static_cast<int64_t>(next) < own.before[i]; ++next) {
      all.shards.push_back(OnRank(shared.shards[next], rank));
    }
    all.shards.push_back(own.shards[i].info);
  }
  for (; next < shared.shards.size(); ++next) {
    all.shards.push_back(OnRank(shared.shards[next], rank));
  }
  return all;
}

void ForEachSelected(const ListedRanks& listed, const RankSelection& selection,
                     int rank,
                     absl::FunctionRef<void(const ListedShard&, int32_t)> fn) {
  const RankLists& lists = listed.ranks[rank];
  const ShardList& shared = listed.lists[lists.shared];
  const ShardList& own = listed.lists[lists.own];
  const std::vector<int32_t>& of_own = selection[lists.own];
  auto next = of_own.begin();
  const auto visit_own_until = [&](int32_t number) {
    for (; next != of_own.end() && FindOwnPlace(own, *next) < number; ++next) {
      fn(own.shards[*next], FindOwnPlace(own, *next));
    }
  };
  for (const int32_t i : selection[lists.shared]) {
    const int32_t number = FindSharedPlace(own, i);
    visit_own_until(number);
    fn(shared.shards[i], number);
  }
  visit_own_until(INT32_MAX);
}

void ForEachToldKey(const ListedRanks& listed,
                    absl::FunctionRef<void(const std::vector<ToldShard>&)> fn) {
  struct Tellers {
    std::vector<int32_t> shared, own;
  };
  std::vector<Tellers> tellers(listed.lists.size());  // the ranks of each list
  for (size_t i = 0; i < listed.ranks.size(); ++i) {
    const auto rank = static_cast<int32_t>(i);
    tellers[listed.ranks[i].shared].shared.push_back(rank);
    tellers[listed.ranks[i].own].own.push_back(rank);
  }
  std::vector<ToldShard> told;
  const RowsByKey by_key = GroupByKey(listed.lists);
  for (const KeyRows& key : by_key.keys) {
    told.clear();
    for (const Row& row : by_key.Of(key)) {
      const ListedShard& shard = listed.lists[row.list].shards[row.shard];
      const Tellers& ranks = tellers[row.list];
      told.push_back(
          {.shard = &shard,
           .ranks = shard.place == Place::kBox ? &ranks.own : &ranks.shared,
           .list = row.list,
           .entry = row.shard});
    }
    fn(told);
  }
}

Status ForEachKey(const ListedRanks& listed,
                  absl::FunctionRef<Status(const std::vector<HeldShard>&)> fn) {
  std::vector<HeldEntry> held;
  std::vector<ShardInfo> made;  // for entries without a box
  std::vector<HeldShard> shards;
  Status status;
  ForEachToldKey(listed, [&](const std::vector<ToldShard>& told) {
    if (!status.ok()) return;
    ListHolders(listed, told, held);
    made.clear();
    made.reserve(held.size());  // keeps pointers to the elements valid
    shards.clear();
    for (const HeldEntry& entry : held) {
      shards.push_back(entry.held);
      if (entry.shard->place == Place::kBox) {
        shards.back().info = &entry.shard->info;
      } else {
        made.push_back(OnRank(*entry.shard, entry.held.rank));
        shards.back().info = &made.back();
      }
    }
    status = fn(shards);
  });
  return status;
}

}  // namespace belay
