#include "state/row_counts.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "absl/strings/str_format.h"
#include "belay/rows.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "core/wire.h"
#include "state/id_rows.h"
#include "state/memory_layout.h"
#include "state/rank_rows.h"

namespace belay {
namespace {

constexpr int64_t kIdBytes = 8;

RowGroupRoom AppendRowGroup(const Shard& shard, int64_t count, RowParts parts,
                            Message& message) {
  const int64_t row_bytes = RowBytes(shard);
  WireWriter head;
  head.PutText(RowsId(shard));
  head.Put(shard.dtype);
  head.Put(row_bytes);
  head.PutText(FieldsTextOf(shard));
  head.Put(count);
  head.Put(parts);
  message.Append(head.bytes());
  const int64_t ids = parts == RowParts::kRows ? 0 : count * kIdBytes;
  const int64_t rows = parts == RowParts::kIds ? 0 : count * row_bytes;
  std::byte* const room = message.Extend(static_cast<size_t>(ids + rows));
  return {.ids = room, .rows = room + ids};
}

}  // namespace

std::vector<RowGroupRoom> AppendRowGroups(const Shard& shard,
                                          const std::vector<int32_t>& ranks,
                                          RowParts parts, Messages& to) {
  std::vector<int64_t> counts(to.size());
  for (const int32_t rank : ranks) ++counts[static_cast<size_t>(rank)];
  std::vector<RowGroupRoom> rooms(to.size());
  for (size_t rank = 0; rank < to.size(); ++rank) {
    if (counts[rank] == 0) continue;
    rooms[rank] = AppendRowGroup(shard, counts[rank], parts, to[rank]);
  }
  return rooms;
}

RowGroup TakeRowGroup(std::span<std::byte>& message) {
  const std::string_view bytes(reinterpret_cast<const char*>(message.data()),
                               message.size());
  WireReader in(bytes);
  RowGroup group;
  group.key = in.GetText();
  group.dtype = in.Get<DType>();
  group.row_bytes = in.Get<int64_t>();
  group.fields = in.GetText();
  group.count = in.Get<int64_t>();
  const auto parts = in.Get<RowParts>();
  const size_t head = bytes.size() - in.Rest().size();
  const int64_t ids = parts == RowParts::kRows ? 0 : group.count * kIdBytes;
  const int64_t rows =
      parts == RowParts::kIds ? 0 : group.count * group.row_bytes;
  group.ids = message.data() + head;
  group.rows = group.ids + ids;
  message = message.subspan(head + static_cast<size_t>(ids + rows));
  return group;
}

bool HasFormOf(const RowGroup& group, const Shard& shard) {
  return group.dtype == shard.dtype && group.row_bytes == RowBytes(shard) &&
         group.fields == FieldsTextOf(shard);
}

// --- Row counts ---

namespace {

// What all ranks have to say alike of a key.
struct RowForm {
  DType dtype = DType::kU8;
  Shape row = {};
  std::string fields = {};  // of structs
  bool has_ids = false;
  int64_t count = -1;  // as of IdOptions

  friend bool operator==(const RowForm&, const RowForm&) = default;
};

struct KeyCounts {
  RowForm form;
  int rank = 0;  // the first that has it
  std::vector<int64_t> counts;
  std::vector<int64_t> first;  // the first row of each rank; the number of all
  std::vector<int32_t> holders;  // that have the key, if only of no rows
  int32_t holder_list = -1;      // its number among the lists; -1: all ranks
};

std::string RowFormText(const RowForm& form) {
  const std::string what =
      form.fields.empty() ? Cat(DTypeName(form.dtype), " ", ShapeText(form.row))
                          : Cat("structs of ", form.fields);
  if (!form.has_ids) return what;
  return form.count < 0 ? what + " with ids"
                        : absl::StrFormat("%s with %d ids", what, form.count);
}

// Adds what a rank has to that of all.
Status AddCounts(std::string_view bytes, int rank, int num_ranks,
                 std::map<std::string, KeyCounts>& all) {
  std::set<std::string_view> seen;
  WireReader in(bytes);
  const auto count = in.Get<uint64_t>();
  for (uint64_t i = 0; i < count; ++i) {
    in.Get<int32_t>();  // the shard, for its rank
    const std::string_view key = in.GetText();
    RowForm form{.dtype = in.Get<DType>()};
    const Shape shape = in.GetShape();
    form.row.assign(shape.begin() + 1, shape.end());
    form.fields = in.GetText();
    form.has_ids = in.Get<bool>();
    form.count = in.Get<int64_t>();
    if (!seen.insert(key).second) {
      return absl::InvalidArgumentError(Cat("plan \"", key, "\": rank ", rank,
                                            " has rows under this key twice"));
    }
    KeyCounts& one = all[std::string(key)];
    if (one.counts.empty()) {
      one = {
          .form = form, .rank = rank, .counts = {}, .first = {}, .holders = {}};
      one.counts.resize(static_cast<size_t>(num_ranks));
    }
    if (one.form != form) {
      return absl::InvalidArgumentError(
          Cat("plan \"", key,
              "\": the rows of the ranks differ in dtype, shape or ids (rank ",
              one.rank, " has ", RowFormText(one.form), ", rank ", rank,
              " has ", RowFormText(form), ")"));
    }
    one.counts[static_cast<size_t>(rank)] = shape[0];
    one.holders.push_back(rank);
  }
  return absl::OkStatus();
}

// What a rank is told of the shards that it has listed in `bytes`.
std::string PlacementsOf(std::string_view bytes, int rank,
                         const std::map<std::string, KeyCounts>& all) {
  WireReader in(bytes);
  WireWriter out;
  const auto count = in.Get<uint64_t>();
  out.Put(count);
  for (uint64_t i = 0; i < count; ++i) {
    const auto shard = in.Get<int32_t>();
    const KeyCounts& one = all.at(std::string(in.GetText()));
    in.Get<DType>();
    in.GetShape();
    in.GetText();
    const bool has_ids = in.Get<bool>();
    in.Get<int64_t>();
    out.Put(shard);
    out.Put(one.first[static_cast<size_t>(rank)]);
    out.Put(one.first.back());
    out.Put(has_ids);
    out.Put(one.holder_list);
  }
  return out.Take();
}

// Numbers the lists of holders, and returns each list once: each rank would
// otherwise get one that is as long as there are ranks.
std::string ShareHolders(std::map<std::string, KeyCounts>& all) {
  std::map<std::vector<int32_t>, int32_t> lists;
  WireWriter out;
  bool any_ids = false;
  for (auto& [key, counts] : all) {
    if (!counts.form.has_ids) continue;
    any_ids = true;
    if (counts.holders.size() == counts.counts.size()) continue;
    const auto next = static_cast<int32_t>(lists.size());
    counts.holder_list = lists.emplace(counts.holders, next).first->second;
  }
  std::vector<const std::vector<int32_t>*> ordered(lists.size());
  for (const auto& [list, number] : lists) {
    ordered[static_cast<size_t>(number)] = &list;
  }
  out.Put(any_ids);
  out.Put<uint64_t>(ordered.size());
  for (const std::vector<int32_t>* list : ordered) {
    out.Put<uint64_t>(list->size());
    for (const int32_t holder : *list) out.Put(holder);
  }
  return out.Take();
}

}  // namespace

std::vector<StoredRows> RowsOfArrays(const std::vector<KeyRows>& keys,
                                     const std::vector<StoredArray>& arrays) {
  std::vector<StoredRows> rows;
  for (const KeyRows& one : keys) {
    const size_t array = FirstFrom(arrays, one.key);
    if (array == arrays.size() || arrays[array].key != one.key) continue;
    // A copy may have made another array under the key.
    const Shape& shape = arrays[array].shape;
    if (shape.empty() || shape[0] != one.ranks.FirstOf(one.ranks.ranks)) {
      continue;
    }
    rows.push_back({static_cast<uint32_t>(array), one.ranks});
  }
  std::sort(rows.begin(), rows.end(),
            [](const StoredRows& a, const StoredRows& b) {
              return a.array < b.array;
            });
  return rows;
}

std::vector<KeyRows> RowsOfKeys(const SavedCheckpoint& saved) {
  std::vector<KeyRows> keys;
  for (const StoredRows& one : saved.rows) {
    keys.push_back({saved.arrays[one.array].key, one.ranks});
  }
  return keys;
}

std::string EncodeRowCounts(const std::vector<Shard>& shards) {
  WireWriter out;
  out.Put<uint64_t>(static_cast<uint64_t>(
      std::count_if(shards.begin(), shards.end(),
                    [](const Shard& shard) { return shard.rows != nullptr; })));
  for (size_t i = 0; i < shards.size(); ++i) {
    if (shards[i].rows == nullptr) continue;
    out.Put(static_cast<int32_t>(i));
    out.PutText(shards[i].key);
    out.Put(shards[i].dtype);
    out.PutShape(shards[i].global_shape);
    out.PutText(FieldsTextOf(shards[i]));
    out.Put(HasIds(shards[i]));
    out.Put(shards[i].rows->count);
  }
  return out.Take();
}

StatusOr<MergedRows> MergeRowCounts(const std::vector<std::string>& gathered) {
  const auto num_ranks = static_cast<int>(gathered.size());
  std::map<std::string, KeyCounts> all;
  for (int rank = 0; rank < num_ranks; ++rank) {
    BELAY_RETURN_IF_ERROR(
        AddCounts(gathered[static_cast<size_t>(rank)], rank, num_ranks, all));
  }
  MergedRows merged;
  for (auto& [key, counts] : all) {
    counts.first.assign(1, 0);
    std::partial_sum(counts.counts.begin(), counts.counts.end(),
                     std::back_inserter(counts.first));
    BELAY_RETURN_IF_ERROR(
        CheckCount("save", key, counts.form.count, counts.first.back()));
    if (counts.form.has_ids) continue;
    merged.keys.push_back({key, RowRanksOf(counts.counts)});
  }
  merged.common = ShareHolders(all);
  for (int rank = 0; rank < num_ranks; ++rank) {
    merged.parts.push_back(
        PlacementsOf(gathered[static_cast<size_t>(rank)], rank, all));
  }
  return merged;
}

RowPlacements DecodePlacements(std::string_view common, std::string_view part) {
  WireReader shared(common);
  RowPlacements placements;
  placements.any_ids = shared.Get<bool>();
  const auto lists = shared.GetAll<std::vector<int32_t>>([&] {
    return shared.GetAll<int32_t>([&] { return shared.Get<int32_t>(); });
  });
  WireReader in(part);
  placements.shards = in.GetAll<RowPlacement>([&] {
    RowPlacement one{.shard = in.Get<int32_t>()};
    one.first = in.Get<int64_t>();
    one.total = in.Get<int64_t>();
    one.has_ids = in.Get<bool>();
    const auto list = in.Get<int32_t>();
    if (list >= 0) one.holders = lists[static_cast<size_t>(list)];
    return one;
  });
  return placements;
}

void PlaceShards(const std::vector<RowPlacement>& placements,
                 std::vector<Shard>& shards) {
  for (const RowPlacement& one : placements) {
    if (one.has_ids) continue;
    Shard& shard = shards[static_cast<size_t>(one.shard)];
    shard.global_shape[0] = one.total;
    shard.box.offset[0] = one.first;
  }
}

}  // namespace belay
