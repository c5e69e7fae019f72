#include "state/rank_rows.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "absl/strings/str_format.h"
#include "belay/rows.h"
#include "core/catch_exceptions.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "state/array_access.h"
#include "state/memory_layout.h"
#include "state/row_counts.h"

namespace belay {
namespace {

bool HasOwner(const Shard& shard) {
  return shard.rows != nullptr && shard.rows->owner != nullptr;
}

// The owner of each row of a shard.
StatusOr<std::vector<int32_t>> OwnersOf(const Shard& shard, int num_ranks) {
  const auto* row = static_cast<const char*>(shard.data);
  std::vector<int32_t> owners(static_cast<size_t>(shard.box.shape[0]));
  for (size_t i = 0; i < owners.size(); ++i, row += RowBytesInMemory(shard)) {
    const StatusOr<int> owner =
        CatchExceptions([&] { return shard.rows->owner(row); });
    if (!owner.ok()) {
      return Status(owner.status().code(),
                    Cat("restore \"", shard.key, "\": the function `owner`: ",
                        owner.status().message()));
    }
    owners[i] = *owner;
    if (owners[i] >= 0 && owners[i] < num_ranks) continue;
    return absl::InvalidArgumentError(absl::StrFormat(
        "restore \"%s\": the owner of row %d is not a rank (need 0 to %d, "
        "found "
        "%d)",
        shard.key, shard.box.offset[0] + static_cast<int64_t>(i), num_ranks - 1,
        owners[i]));
  }
  return owners;
}

// Appends the rows of a shard to what their owners get.
Status Pack(const Shard& shard, Messages& to) {
  BELAY_ASSIGN_OR_RETURN(const std::vector<int32_t> owners,
                         OwnersOf(shard, static_cast<int>(to.size())));
  const int64_t bytes = RowBytes(shard);
  std::vector<RowGroupRoom> next =
      AppendRowGroups(shard, owners, RowParts::kRows, to);
  const auto* row = static_cast<const char*>(shard.data);
  const int64_t in_memory = RowBytesInMemory(shard);
  WithProgramCopier(shard, true, [&](auto pack) {
    for (const int32_t owner : owners) {
      std::byte*& stored = next[static_cast<size_t>(owner)].rows;
      pack(row, stored);
      stored += bytes;
      row += in_memory;
    }
  });
  return absl::OkStatus();
}

// What came, by the key of the rows, in the order of the ranks.
std::map<std::string_view, std::vector<RowGroup>> Unpack(
    const std::vector<std::span<std::byte>>& from) {
  std::map<std::string_view, std::vector<RowGroup>> arrived;
  for (std::span<std::byte> rest : from) {
    while (!rest.empty()) {
      const RowGroup group = TakeRowGroup(rest);
      arrived[group.key].push_back(group);
    }
  }
  return arrived;
}

Status TakeRows(const std::vector<RowGroup>& arrived, Shard& shard) {
  int64_t count = 0;
  for (const RowGroup& one : arrived) {
    count += one.count;
    if (HasFormOf(one, shard)) continue;
    return absl::FailedPreconditionError(absl::StrFormat(
        "restore \"%s\": ranks have rows of other types (need %s in %d bytes, "
        "found %s in %d)",
        shard.key, DTypeName(shard.dtype), RowBytes(shard),
        DTypeName(one.dtype), one.row_bytes));
  }
  // Another key may have given its range another length.
  BELAY_RETURN_IF_ERROR(FindElements(shard));
  if (count != shard.box.shape[0] || HasNewRows(shard)) {
    if (!CanResize(shard)) {
      return absl::FailedPreconditionError(
          absl::StrFormat("restore \"%s\": the range of this rank does not fit "
                          "the number of rows that it owns (need %d, found %d)",
                          shard.key, count, shard.box.shape[0]));
    }
    shard.object_elements = -1;
    BELAY_RETURN_IF_ERROR(ResizeRows(count, shard));
  }
  auto* row = static_cast<char*>(shard.data);
  const int64_t in_memory = RowBytesInMemory(shard);
  WithProgramCopier(shard, false, [&](auto unpack) {
    for (const RowGroup& one : arrived) {
      const std::byte* stored = one.rows;
      for (int64_t i = 0; i < one.count; ++i) {
        unpack(stored, row);
        stored += one.row_bytes;
        row += in_memory;
      }
    }
  });
  return absl::OkStatus();
}

}  // namespace

bool HasOwners(const std::vector<Shard>& shards) {
  return std::any_of(shards.begin(), shards.end(), HasOwner);
}

Status PackByOwner(const std::vector<Shard>& shards, Messages& to) {
  std::set<std::string> ids;
  for (const Shard& shard : shards) {
    if (!HasOwner(shard)) continue;
    if (!ids.insert(RowsId(shard)).second) {
      return absl::InvalidArgumentError(
          Cat("restore \"", shard.key,
              "\": it is added twice, but each row goes to ",
              "one place at its owner: add the key once"));
    }
    BELAY_RETURN_IF_ERROR(Pack(shard, to));
  }
  return absl::OkStatus();
}

Status TakeOwned(const std::vector<std::span<std::byte>>& from,
                 std::vector<Shard>& shards) {
  auto arrived = Unpack(from);
  const std::vector<RowGroup> none;
  for (Shard& shard : shards) {
    if (!HasOwner(shard)) continue;
    auto found = arrived.extract(RowsId(shard));
    BELAY_RETURN_IF_ERROR(
        TakeRows(found.empty() ? none : found.mapped(), shard));
  }
  if (arrived.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      Cat("restore \"", StoredKeyOfId(arrived.begin()->first),
          "\": this rank owns rows of it, and does not restore it"));
}

// --- Rank rows ---

namespace rows {

Shard ShardOf(const RowForm& form, void* data, int64_t elements,
              RankRows rows) {
  Shard shard{.dtype = form.dtype, .data = data};
  shard.structs = form.structs;
  if (rows.row.empty()) {
    rows.row = form.shape;
  } else if (shard.structs != nullptr) {
    StructLayout layout = *shard.structs;
    layout.problem = "a row is one of them, so the option `row` stays empty";
    shard.structs = std::make_shared<const StructLayout>(std::move(layout));
  }
  shard.rows = std::make_shared<const RankRows>(std::move(rows));
  // What are no whole rows is told when the shard is listed.
  const StatusOr<Shape> shape = RowsShape(shard, elements);
  shard.global_shape = shape.ok() ? *shape : Shape{elements};
  shard.box = WholeBox(shard.global_shape);
  return shard;
}

}  // namespace rows

namespace {

// The rows that a rank gets: [begin, end).
struct RowSpan {
  int64_t begin = 0;
  int64_t end = 0;
  bool is_kept = false;  // none, and the rank keeps those that it has
};

Status OtherRanksError(const FoundRows& found, const RankRows& rows,
                       int num_ranks) {
  return absl::FailedPreconditionError(absl::StrFormat(
      "restore \"%s\": this value is per rank, and other ranks have saved it "
      "(need "
      "%d ranks that restore it, found %d); choose what the others get: "
      "other_ranks = "
      "OtherRanks::kFirst%s, or a function `source`",
      StoredKeyOfId(found.id), found.ranks.ranks,
      found.restorers.empty() ? num_ranks : std::ssize(found.restorers),
      rows.is_text ? "" : " or kEven"));
}

// Those that a function of the program chooses.
StatusOr<RowSpan> ChosenRange(const FoundRows& found, const RankRows& rows,
                              int rank, int num_ranks) {
  const auto saved = static_cast<int>(found.ranks.ranks);
  const StatusOr<int> named =
      CatchExceptions([&] { return rows.source(rank, num_ranks, saved); });
  if (!named.ok()) {
    return Status(named.status().code(),
                  Cat("restore \"", StoredKeyOfId(found.id),
                      "\": the function `source`: ", named.status().message()));
  }
  const int source = *named;
  if (source == -1) return RowSpan{.is_kept = rows.is_per_rank};
  if (source < -1 || source >= saved) {
    return absl::InvalidArgumentError(
        absl::StrFormat("restore \"%s\": the function `source` returned a rank "
                        "that has not saved (need -1 to %d, found %d)",
                        StoredKeyOfId(found.id), saved - 1, source));
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
  const bool is_even =
      rows.other_ranks == OtherRanks::kEven && rows.source == nullptr;
  if (rows.owner != nullptr || is_even) {
    return EvenPart(found, rank, num_ranks);
  }
  if (is_said) return OtherRanksError(found, rows, num_ranks);
  return absl::FailedPreconditionError(Cat(
      "restore \"", StoredKeyOfId(found.id), "\": the array was not saved ",
      "as rows of ranks, so it is unknown which rank had which rows: add it ",
      "as it was saved, or as rows with OtherRanks::kEven"));
}

// The numbers of a row.
int64_t Width(const RankRows& rows) { return NumElements(rows.row); }

// Gives a shard room for the rows, which are those of the array from `begin`
// on.
Status TakeRows(const RowSpan& range, int64_t total, Shard& shard,
                std::vector<FormerElements>& former) {
  const int64_t count = range.end - range.begin;
  const Shape before = shard.global_shape;
  if (range.is_kept) {
    shard.object = nullptr;
    shard.access = nullptr;
    shard.object_elements = -1;
    shard.box.shape[0] = 0;
  } else if (before[0] != count || HasNewRows(shard)) {
    if (!CanResize(shard)) {
      return absl::FailedPreconditionError(absl::StrFormat(
          "restore \"%s\": the range of this rank does not fit its number of "
          "rows (need %d, found %d); a std::vector is resized",
          shard.key, count, before[0]));
    }
    former.push_back(ElementsOf(shard));
    BELAY_RETURN_IF_ERROR(ResizeRows(count, shard));
  }
  if (shard.access != nullptr) {
    shard.object_elements = count * Width(*shard.rows);
  }
  shard.global_shape[0] = total;
  shard.box.offset[0] = range.begin;
  if (shard.structs != nullptr) {
    shard.global_shape.back() = shard.structs->stored_bytes;
    shard.box.shape.back() = shard.structs->stored_bytes;
  }
  return absl::OkStatus();
}

// Lets a shard of structs take the form of those that are stored.
Status TakeFields(const FoundRows& found, Shard& shard) {
  if (shard.structs == nullptr) {
    if (found.fields.empty() || shard.dtype == DType::kU8) {
      return absl::OkStatus();
    }
    return absl::FailedPreconditionError(
        Cat("restore \"", shard.key, "\": structs are stored (need rows of ",
            DTypeName(shard.dtype), ", found fields ", found.fields,
            "); add a range of structs with such fields"));
  }
  if (found.dtype != DType::kU8 || found.shape.size() != 2) {
    return absl::FailedPreconditionError(
        Cat("restore \"", shard.key, "\": no structs are stored (found ",
            DTypeName(found.dtype), " ", ShapeText(found.shape), ")"));
  }
  return TakeStoredFields(found.fields, found.shape[1],
                          shard.rows->other_fields, shard);
}

// Whether what is stored has rows of that form.
bool HasRow(const FoundRows& found, const Shard& shard) {
  if (shard.structs != nullptr) return found.shape.size() == 2;
  const RankRows& rows = *shard.rows;
  return std::equal(found.shape.begin() + 1, found.shape.end(),
                    rows.row.begin(), rows.row.end());
}

// What is stored of a shard; null if that is nothing, or a single number: the
// plan says so.
const FoundRows* FoundOf(const Shard& shard,
                         const std::vector<FoundRows>& found) {
  const std::string id = RowsId(shard);
  const auto one = std::lower_bound(
      found.begin(), found.end(), id,
      [](const FoundRows& a, const std::string& b) { return a.id < b; });
  const bool is_there =
      one != found.end() && one->id == id && !one->shape.empty();
  return is_there ? &*one : nullptr;
}

}  // namespace

int64_t RowBytes(const Shard& shard) {
  if (shard.structs != nullptr) return shard.structs->stored_bytes;
  return NumElements(shard.rows->row) * DTypeSize(shard.dtype);
}

bool HasNewRows(const Shard& shard) {
  return shard.structs != nullptr && shard.rows->owner != nullptr;
}

Status ResizeRows(int64_t count, Shard& shard) {
  if (HasNewRows(shard)) {
    BELAY_RETURN_IF_ERROR(Resize(0, shard));
  }
  const int64_t width = NumElements(shard.rows->row);
  const Status status = Resize(count * width, shard);
  if (!absl::IsFailedPrecondition(status)) return status;
  const int64_t room =
      NumElements(shard.access->view(shard.object).shape) / width;
  return absl::FailedPreconditionError(
      absl::StrFormat("restore \"%s\": the range of this rank does not fit its "
                      "number of rows (need %d, found %d)",
                      shard.key, count, room));
}

int64_t RowBytesInMemory(const Shard& shard) {
  return shard.structs != nullptr ? shard.structs->bytes : RowBytes(shard);
}

StatusOr<Shape> RowsShape(const Shard& shard, int64_t elements) {
  if (shard.structs != nullptr && !shard.structs->problem.empty()) {
    return absl::InvalidArgumentError(
        Cat("list \"", shard.key, "\": its structs: ", shard.structs->problem));
  }
  const RankRows& rows = *shard.rows;
  if (rows.is_text && rows.source == nullptr &&
      rows.other_ranks == OtherRanks::kEven) {
    return absl::InvalidArgumentError(Cat(
        "list \"", shard.key, "\": OtherRanks::kEven cannot divide the texts ",
        "of ranks evenly among another number of ranks; use ",
        "OtherRanks::kFirst, or a function `source`"));
  }
  const int64_t width = Width(rows);
  if (width <= 0 || elements % width != 0) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "list \"%s\": the range does not consist of whole rows of shape %s "
        "(need a multiple of %d numbers, found %d)",
        shard.key, ShapeText(shard.rows->row), width, elements));
  }
  Shape shape = {elements / width};
  shape.insert(shape.end(), shard.rows->row.begin(), shard.rows->row.end());
  return shape;
}

void TakeKey(const std::string& stored_key, Shard& shard) {
  if (shard.rows != nullptr && stored_key != shard.key) {
    RankRows rows = *shard.rows;
    rows.key = shard.key;
    shard.rows = std::make_shared<const RankRows>(std::move(rows));
  }
  shard.key = stored_key;
}

std::string RowsId(const Shard& shard) {
  std::string id = shard.key;
  if (shard.rows->key.empty()) return id;
  id.push_back('\0');  // which no key has
  return id + shard.rows->key;
}

std::string StoredKeyOfId(std::string_view id) {
  return std::string(id.substr(0, id.find('\0')));
}

bool HasRows(const std::vector<Shard>& shards) {
  return std::any_of(shards.begin(), shards.end(),
                     [](const Shard& shard) { return shard.rows != nullptr; });
}

Status PlaceRows(const std::vector<FoundRows>& found, int rank, int num_ranks,
                 std::vector<Shard>& shards,
                 std::vector<FormerElements>& former,
                 std::vector<IdBlock>& blocks) {
  // First: no memory has been given up yet that theirs could be taken for.
  for (Shard& shard : shards) {
    if (!HasIds(shard)) continue;
    const FoundRows* const one = FoundOf(shard, found);
    if (one == nullptr) continue;
    BELAY_RETURN_IF_ERROR(
        CheckCount("restore", shard.key, shard.rows->count, one->shape[0]));
    BELAY_RETURN_IF_ERROR(TakeFields(*one, shard));
    IdBlock& block = blocks.emplace_back();
    block.shard = shard;
    block.total = one->shape[0];
    block.holders = one->restorers;
    BELAY_ASSIGN_OR_RETURN(shard, TakeBlock(rank, num_ranks, block));
  }
  for (Shard& shard : shards) {
    if (shard.rows == nullptr) continue;
    const FoundRows* const one = FoundOf(shard, found);
    if (one == nullptr) continue;
    BELAY_RETURN_IF_ERROR(TakeFields(*one, shard));
    if (!HasRow(*one, shard)) {  // the plan says so
      shard.global_shape[0] = one->shape[0];
      continue;
    }
    if (shard.rows->owner != nullptr && !CanResize(shard)) {
      return absl::FailedPreconditionError(Cat(
          "restore \"", shard.key, "\": rows that go to their owners need a ",
          "range that can change its length, such as a std::vector"));
    }
    BELAY_ASSIGN_OR_RETURN(const RowSpan range,
                           RangeOf(*one, *shard.rows, rank, num_ranks));
    BELAY_RETURN_IF_ERROR(TakeRows(range, one->shape[0], shard, former));
  }
  return absl::OkStatus();
}

}  // namespace belay
