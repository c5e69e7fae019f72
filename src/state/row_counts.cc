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
  head(RowsId(shard), shard.dtype, row_bytes, FieldsTextOf(shard), count,
       parts);
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

// Equal on all ranks that have rows of a key.
struct RowForm {
  DType dtype = DType::kU8;
  Shape row = {};
  std::string fields = {};  // of structs
  bool has_ids = false;
  int64_t count = -1;  // as of IdOptions

  friend bool operator==(const RowForm&, const RowForm&) = default;
};

// The rows of one shard of a rank.
struct ListedRows {
  int32_t shard = 0;
  std::string key;
  RowForm form;
  int64_t count = 0;
};
template <typename Archive>
void Fields(Archive& archive, ListedRows& rows) {
  archive(rows.shard, rows.key, rows.form.dtype, rows.form.row,
          rows.form.fields, rows.form.has_ids, rows.form.count, rows.count);
}

std::vector<ListedRows> DecodeRows(std::string_view bytes) {
  return Decode<std::vector<ListedRows>>(bytes).value();
}

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

Status AddCounts(std::string_view bytes, int rank, int num_ranks,
                 std::map<std::string, KeyCounts>& all) {
  std::set<std::string> seen;
  for (const ListedRows& rows : DecodeRows(bytes)) {
    if (!seen.insert(rows.key).second) {
      return absl::InvalidArgumentError(Cat("plan \"", rows.key, "\": rank ",
                                            rank,
                                            " has rows under this key twice"));
    }
    KeyCounts& one = all[rows.key];
    if (one.counts.empty()) {
      one.form = rows.form;
      one.rank = rank;
      one.counts.resize(static_cast<size_t>(num_ranks));
    }
    if (one.form != rows.form) {
      return absl::InvalidArgumentError(
          Cat("plan \"", rows.key,
              "\": the rows of the ranks differ in dtype, shape or ids (rank ",
              one.rank, " has ", RowFormText(one.form), ", rank ", rank,
              " has ", RowFormText(rows.form), ")"));
    }
    one.counts[static_cast<size_t>(rank)] = rows.count;
    one.holders.push_back(rank);
  }
  return absl::OkStatus();
}

// Places the shards that a rank has listed in `bytes`.
std::string EncodePlacements(std::string_view bytes, int rank,
                             const std::map<std::string, KeyCounts>& all) {
  std::vector<RowPlacement> placements;
  for (const ListedRows& rows : DecodeRows(bytes)) {
    const KeyCounts& one = all.at(rows.key);
    placements.push_back({.shard = rows.shard,
                          .first = one.first[static_cast<size_t>(rank)],
                          .total = one.first.back(),
                          .has_ids = rows.form.has_ids,
                          .holder_list = one.holder_list});
  }
  return Encode(placements);
}

// The part of the message that is equal on all ranks.
struct SharedPlacements {
  bool any_ids = false;
  std::vector<std::vector<int32_t>> holder_lists;
};
template <typename Archive>
void Fields(Archive& archive, SharedPlacements& shared) {
  archive(shared.any_ids, shared.holder_lists);
}

// Numbers the lists of holders. Each list travels once: each key of each rank
// would otherwise have one that is as long as there are ranks.
SharedPlacements ShareHolders(std::map<std::string, KeyCounts>& all) {
  SharedPlacements shared;
  std::map<std::vector<int32_t>, int32_t> numbers;
  for (auto& [key, counts] : all) {
    if (!counts.form.has_ids) continue;
    shared.any_ids = true;
    if (counts.holders.size() == counts.counts.size()) continue;
    const auto [at, is_new] =
        numbers.emplace(counts.holders, static_cast<int32_t>(numbers.size()));
    counts.holder_list = at->second;
    if (is_new) shared.holder_lists.push_back(counts.holders);
  }
  return shared;
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
  std::vector<ListedRows> all;
  for (size_t i = 0; i < shards.size(); ++i) {
    const Shard& shard = shards[i];
    if (shard.rows == nullptr) continue;
    const Shape& shape = shard.global_shape;
    all.push_back({.shard = static_cast<int32_t>(i),
                   .key = shard.key,
                   .form = {.dtype = shard.dtype,
                            .row = Shape(shape.begin() + 1, shape.end()),
                            .fields = FieldsTextOf(shard),
                            .has_ids = HasIds(shard),
                            .count = shard.rows->count},
                   .count = shape[0]});
  }
  return Encode(all);
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
  merged.common = Encode(ShareHolders(all));
  for (int rank = 0; rank < num_ranks; ++rank) {
    merged.parts.push_back(
        EncodePlacements(gathered[static_cast<size_t>(rank)], rank, all));
  }
  return merged;
}

RowPlacements DecodePlacements(std::string_view common, std::string_view part) {
  const auto shared = Decode<SharedPlacements>(common).value();
  RowPlacements placements{.any_ids = shared.any_ids};
  placements.shards = Decode<std::vector<RowPlacement>>(part).value();
  for (RowPlacement& one : placements.shards) {
    if (one.holder_list < 0) continue;
    one.holders = shared.holder_lists[static_cast<size_t>(one.holder_list)];
  }
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
