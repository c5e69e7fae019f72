#include "types/rank_rows.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/guarded.h"
#include "base/status_macros.h"
#include "base/text.h"

namespace belay {
namespace rows {

Shard ShardOf(DType dtype, void* data, int64_t elements, RankRows rows) {
  Shard shard{.dtype = dtype, .data = data};
  shard.rows = std::make_shared<const RankRows>(std::move(rows));
  // What are no whole rows is told when the shard is listed.
  const StatusOr<Shape> shape = RowsShape(shard, elements);
  shard.global_shape = shape.ok() ? *shape : Shape{elements};
  shard.box = WholeBox(shard.global_shape);
  return shard;
}

}  // namespace rows

namespace {

// What all ranks have to say alike of a key.
struct RowForm {
  DType dtype = DType::kU8;
  Shape row;

  friend bool operator==(const RowForm&, const RowForm&) = default;
};

struct KeyCounts {
  RowForm form;
  int rank = 0;  // the first that has it
  std::vector<int64_t> counts;
};

std::string RowFormText(const RowForm& form) {
  return Cat(DTypeName(form.dtype), " ", ShapeText(form.row));
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
    if (!seen.insert(key).second) {
      return absl::InvalidArgumentError(Cat("plan \"", key, "\": rank ", rank,
                                            " has rows under this key twice"));
    }
    KeyCounts& one = all[std::string(key)];
    if (one.counts.empty()) {
      one = {.form = form, .rank = rank, .counts = {}};
      one.counts.resize(static_cast<size_t>(num_ranks));
    }
    if (one.form != form) {
      return absl::InvalidArgumentError(
          Cat("plan \"", key, "\": ranks have rows of other forms (rank ",
              one.rank, " has ", RowFormText(one.form), ", rank ", rank,
              " has ", RowFormText(form), ")"));
    }
    one.counts[static_cast<size_t>(rank)] = shape[0];
  }
  return absl::OkStatus();
}

// The rows that a rank gets: [begin, end).
struct RowSpan {
  int64_t begin = 0;
  int64_t end = 0;
};

Status OtherRanksError(const FoundRows& found, int num_ranks) {
  return absl::FailedPreconditionError(absl::StrFormat(
      "restore \"%s\": each rank has its own, and other ranks have saved (need "
      "%d ranks that restore it, found %d); PerRankOptions and RowsOptions say "
      "what other ranks get",
      found.key, found.ranks.ranks,
      found.restorers.empty() ? num_ranks : std::ssize(found.restorers)));
}

// Those that a function of the program chooses.
StatusOr<RowSpan> ChosenRange(const FoundRows& found, const RankRows& rows,
                              int rank, int num_ranks) {
  const auto saved = static_cast<int>(found.ranks.ranks);
  BELAY_ASSIGN_OR_RETURN(const int source, Guarded([&] {
                           return rows.source(rank, num_ranks, saved);
                         }));
  if (source == -1) return RowSpan();
  if (source < -1 || source >= saved) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "restore \"%s\": the function `source` names no rank that has saved "
        "(need -1 to %d, found %d)",
        found.key, saved - 1, source));
  }
  return RowSpan{found.ranks.FirstOf(source), found.ranks.FirstOf(source + 1)};
}

// Whether every rank that had rows restores them.
bool AllRestore(const FoundRows& found) {
  if (found.restorers.empty()) return true;
  for (int64_t rank = 0; rank < found.ranks.ranks; ++rank) {
    const bool has_rows =
        found.ranks.FirstOf(rank + 1) > found.ranks.FirstOf(rank);
    if (has_rows && !std::binary_search(found.restorers.begin(),
                                        found.restorers.end(), rank)) {
      return false;
    }
  }
  return true;
}

// An even part for each rank that restores.
RowSpan EvenPart(const FoundRows& found, int rank, int num_ranks) {
  const std::vector<int32_t>& some = found.restorers;
  int64_t place = rank, ranks = num_ranks;
  if (!some.empty()) {
    place = std::lower_bound(some.begin(), some.end(), rank) - some.begin();
    ranks = std::ssize(some);
  }
  return {FirstOfEven(found.shape[0], place, ranks),
          FirstOfEven(found.shape[0], place + 1, ranks)};
}

StatusOr<RowSpan> RangeOf(const FoundRows& found, const RankRows& rows,
                          int rank, int num_ranks) {
  const bool is_said = found.ranks.ranks > 0;
  if (rows.owner == nullptr && is_said) {
    if (found.ranks.ranks == num_ranks && AllRestore(found)) {
      return RowSpan{found.ranks.FirstOf(rank), found.ranks.FirstOf(rank + 1)};
    }
    if (rows.source != nullptr) {
      return ChosenRange(found, rows, rank, num_ranks);
    }
    if (rows.other_ranks == OtherRanks::kFirst) {
      return RowSpan{0, found.ranks.FirstOf(1)};
    }
  }
  if (rows.owner != nullptr || rows.other_ranks == OtherRanks::kEven) {
    return EvenPart(found, rank, num_ranks);
  }
  if (is_said) return OtherRanksError(found, num_ranks);
  return absl::FailedPreconditionError(
      Cat("restore \"", found.key, "\": the array was not saved as rows of ",
          "ranks, which AddPerRank needs; add it as what it was"));
}

// The numbers of a row.
int64_t Width(const RankRows& rows) { return NumElements(rows.row); }

// Gives a shard room for the rows, which are those of the array from `begin`
// on.
Status TakeRows(const RowSpan& range, int64_t total, Shard& shard,
                std::vector<FormerElements>& former) {
  const int64_t count = range.end - range.begin;
  const Shape before = shard.global_shape;
  if (before[0] != count) {
    if (shard.access == nullptr) {
      return absl::FailedPreconditionError(absl::StrFormat(
          "restore \"%s\": this rank gets another number of rows than it has "
          "room for (need %d, found %d); a std::vector takes any number",
          shard.key, count, before[0]));
    }
    former.push_back(ElementsOf(shard));
    BELAY_RETURN_IF_ERROR(Resize(count * Width(*shard.rows), shard));
  }
  if (shard.access != nullptr) {
    shard.object_elements = count * Width(*shard.rows);
  }
  shard.global_shape[0] = total;
  shard.box.offset[0] = range.begin;
  return absl::OkStatus();
}

// Before format 1.5 a value of each rank was an array with the ranks as its
// first axis, and no more was said. Whether this is one that so many ranks have
// saved.
bool IsOlder(const FoundRows& found, const RankRows& rows, int num_ranks) {
  return found.ranks.ranks == 0 && rows.row.empty() && rows.owner == nullptr &&
         rows.other_ranks == OtherRanks::kError && found.shape.size() <= 2 &&
         found.shape[0] == num_ranks;
}

// Lets a shard be the row of such an array.
Status TakeOlder(const FoundRows& found, int rank, Shard& shard,
                 std::vector<FormerElements>& former) {
  const int64_t length = found.shape.size() == 2 ? found.shape[1] : 1;
  BELAY_RETURN_IF_ERROR(
      TakeRows({rank * length, (rank + 1) * length}, 0, shard, former));
  shard.global_shape = found.shape;
  shard.box = WholeBox(found.shape);
  shard.box.offset[0] = rank;
  shard.box.shape[0] = 1;
  return absl::OkStatus();
}

}  // namespace

StatusOr<Shape> RowsShape(const Shard& shard, int64_t elements) {
  const int64_t width = Width(*shard.rows);
  if (width <= 0 || elements % width != 0) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "list \"%s\": the range has no whole rows of %s (found %d numbers)",
        shard.key, ShapeText(shard.rows->row), elements));
  }
  Shape shape = {elements / width};
  shape.insert(shape.end(), shard.rows->row.begin(), shard.rows->row.end());
  return shape;
}

bool HasRows(const std::vector<Shard>& shards) {
  return std::any_of(shards.begin(), shards.end(),
                     [](const Shard& shard) { return shard.rows != nullptr; });
}

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
  std::map<std::string, const RowRanks*> ranks_of;
  merged.keys.reserve(all.size());
  for (const auto& [key, counts] : all) {
    merged.keys.push_back({key, RowRanksOf(counts.counts)});
    ranks_of[key] = &merged.keys.back().ranks;
  }
  for (int rank = 0; rank < num_ranks; ++rank) {
    WireReader in(gathered[static_cast<size_t>(rank)]);
    WireWriter out;
    const auto count = in.Get<uint64_t>();
    out.Put(count);
    for (uint64_t i = 0; i < count; ++i) {
      const auto shard = in.Get<int32_t>();
      const RowRanks& ranks = *ranks_of.at(std::string(in.GetText()));
      in.Get<DType>();
      in.GetShape();
      out.Put(RowPlacement{.shard = shard,
                           .first = ranks.FirstOf(rank),
                           .total = ranks.FirstOf(num_ranks)});
    }
    merged.placements.push_back(out.Take());
  }
  return merged;
}

std::vector<RowPlacement> DecodePlacements(std::string_view bytes) {
  WireReader in(bytes);
  return in.GetAll<RowPlacement>([&] { return in.Get<RowPlacement>(); });
}

void PlaceShards(const std::vector<RowPlacement>& placements,
                 std::vector<Shard>& shards) {
  for (const RowPlacement& one : placements) {
    Shard& shard = shards[static_cast<size_t>(one.shard)];
    shard.global_shape[0] = one.total;
    shard.box.offset[0] = one.first;
  }
}

void PutFoundRows(const FoundRows& found, WireWriter& out) {
  out.PutText(found.key);
  out.PutShape(found.shape);
  out.Put(found.ranks.ranks);
  out.Put(found.ranks.count);
  out.Put<uint64_t>(found.ranks.first.size());
  for (const int64_t first : found.ranks.first) out.Put(first);
  out.Put<uint64_t>(found.restorers.size());
  for (const int32_t rank : found.restorers) out.Put(rank);
}

FoundRows GetFoundRows(WireReader& in) {
  FoundRows found;
  found.key = in.GetText();
  found.shape = in.GetShape();
  found.ranks.ranks = in.Get<int64_t>();
  found.ranks.count = in.Get<int64_t>();
  found.ranks.first = in.GetAll<int64_t>([&] { return in.Get<int64_t>(); });
  found.restorers = in.GetAll<int32_t>([&] { return in.Get<int32_t>(); });
  return found;
}

Status PlaceRows(const std::vector<FoundRows>& found, int rank, int num_ranks,
                 std::vector<Shard>& shards,
                 std::vector<FormerElements>& former) {
  for (Shard& shard : shards) {
    if (shard.rows == nullptr) continue;
    const auto one = std::lower_bound(
        found.begin(), found.end(), shard.key,
        [](const FoundRows& a, const std::string& key) { return a.key < key; });
    // That it is not stored, or as a single number, the plan says.
    if (one == found.end() || one->key != shard.key || one->shape.empty()) {
      continue;
    }
    if (IsOlder(*one, *shard.rows, num_ranks)) {
      BELAY_RETURN_IF_ERROR(TakeOlder(*one, rank, shard, former));
      continue;
    }
    BELAY_ASSIGN_OR_RETURN(const RowSpan range,
                           RangeOf(*one, *shard.rows, rank, num_ranks));
    BELAY_RETURN_IF_ERROR(TakeRows(range, one->shape[0], shard, former));
  }
  return absl::OkStatus();
}

}  // namespace belay
