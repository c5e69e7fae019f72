#include "state/rank_rows.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <set>
#include <type_traits>
#include <utility>

#include "absl/strings/str_format.h"
#include "belay/arrays/fields.h"
#include "core/catch_exceptions.h"
#include "core/flat_buffer.h"
#include "core/program_words.h"
#include "core/status_macros.h"
#include "core/strided_copy.h"
#include "core/text.h"
#include "plan/shards.h"
#include "plan/stored_values.h"
#include "state/struct_fields.h"

namespace belay {

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
  // An error about incomplete rows is reported when the shard is listed.
  const StatusOr<Shape> shape = RowsShape(shard, elements);
  shard.global_shape = shape.ok() ? *shape : Shape{elements};
  shard.box = WholeBox(shard.global_shape);
  return shard;
}

}  // namespace rows

namespace {

bool HasOwner(const Shard& shard) {
  return shard.rows != nullptr && shard.rows->owner != nullptr;
}

// Return the bytes of one row: in its stored form, and in the program's memory.
int64_t RowBytes(const Shard& shard) {
  if (shard.structs != nullptr) return shard.structs->stored_bytes;
  return NumElements(shard.rows->row) * DTypeSize(shard.dtype);
}

int64_t RowBytesInMemory(const Shard& shard) {
  return shard.structs != nullptr ? shard.structs->bytes : RowBytes(shard);
}

// Returns true if a restore creates new rows. Otherwise members that are not
// stored would keep the values of other rows.
bool HasNewRows(const Shard& shard) {
  return shard.structs != nullptr && shard.rows->owner != nullptr;
}

// Errors: FailedPrecondition - the range cannot have this number of rows.
Status ResizeRows(int64_t count, Shard& shard) {
  const int64_t width = NumElements(shard.rows->row);
  int64_t found = shard.box.shape[0];
  if (CanResize(shard)) {
    if (HasNewRows(shard)) {
      BELAY_RETURN_IF_ERROR(Resize(0, shard));
    }
    const Status status = Resize(count * width, shard);
    if (!absl::IsFailedPrecondition(status)) return status;
    found = NumElements(shard.access->view(shard.object).shape) / width;
  }
  return absl::FailedPreconditionError(absl::StrFormat(
      "restore \"%s\": the range of this rank does not fit its number of rows "
      "(need %d, found %d)%s",
      shard.key, count, found,
      CanResize(shard) ? "" : "; a std::vector is resized"));
}

}  // namespace

bool HasOwners(const std::vector<Shard>& shards) {
  return std::any_of(shards.begin(), shards.end(), HasOwner);
}

bool HasIds(const Shard& shard) {
  return shard.rows != nullptr && shard.rows->id != nullptr &&
         shard.rows->num_ids != nullptr;
}

StatusOr<Shape> RowsShape(const Shard& shard, int64_t elements) {
  if (shard.structs != nullptr && !shard.structs->problem.empty()) {
    return absl::InvalidArgumentError(
        Cat("list \"", shard.key, "\": its structs: ", shard.structs->problem));
  }
  const RankRows& rows = *shard.rows;
  if (rows.is_text && rows.source == nullptr &&
      rows.other_ranks == OtherRanks::kEven) {
    return absl::InvalidArgumentError(
        Cat("list \"", shard.key, "\": ", kEvenWord.InProgram(),
            " cannot divide the texts of ranks evenly among another number of ",
            "ranks; use ", kFirstWord.InProgram(), kOrSourceWord.InProgram()));
  }
  const int64_t width = NumElements(rows.row);
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
  id.push_back('\0');  // no key contains it
  return id + shard.rows->key;
}

std::string GetStoredKey(std::string_view id) {
  return std::string(id.substr(0, id.find('\0')));
}

bool HasRows(const std::vector<Shard>& shards) {
  return std::any_of(shards.begin(), shards.end(),
                     [](const Shard& shard) { return shard.rows != nullptr; });
}

// --- Messages of rows ---

namespace {

// The next rows are prefetched: if rows are accessed in random order, waiting
// for memory takes longer than copying.
constexpr int64_t kRowsAhead = 16;

// Prefetches the first and the last cache line of a row. The hardware
// prefetches the lines between them.
void PrefetchRow(const void* row, int64_t bytes) {
  const auto* first = static_cast<const char*>(row);
  __builtin_prefetch(first);
  __builtin_prefetch(first + bytes - 1);
}

// Calls visit(copy), where copy(from, to) copies a row of `bytes` bytes. Common
// lengths are compile-time constants.
template <typename Visit>
void WithCopier(int64_t bytes, Visit visit) {
  const auto with_size = [&](auto size) {
    visit([size](const void* from, void* to) {
      std::memcpy(to, from, static_cast<size_t>(size));
    });
  };
  switch (bytes) {
    case 32:
      return with_size(std::integral_constant<int64_t, 32>());
    case 48:
      return with_size(std::integral_constant<int64_t, 48>());
    default:
      return VisitSize(bytes, with_size);
  }
}

// The same, but `copy` converts between the program's memory and the stored
// form: copy(row, stored) if `packs`, else copy(stored, row).
template <typename Visit>
void WithProgramCopier(const Shard& shard, bool packs, Visit visit) {
  if (!IsStrided(shard)) return WithCopier(RowBytes(shard), visit);
  const StructLayout& layout = *shard.structs;
  const Box one = WholeBox({1, layout.stored_bytes});
  visit([&layout, &one, packs](const void* from, void* to) {
    const auto copy = packs ? &PackStructs : &UnpackStructs;
    copy(layout, one, static_cast<const char*>(from), one,
         static_cast<char*>(to), one);
  });
}

RowGroupRoom AppendRowGroup(const Shard& shard, int64_t count, RowParts parts,
                            Message& message) {
  const std::string id = RowsId(shard), fields = GetFieldsText(shard);
  const RowGroup group{.key = id,
                       .dtype = shard.dtype,
                       .row_bytes = RowBytes(shard),
                       .fields = fields,
                       .count = count,
                       .parts = parts};
  message.Append(Encode(group));
  std::byte* const room =
      message.Extend(static_cast<size_t>(group.CountBytes()));
  return {.ids = room, .rows = room + group.CountIdBytes()};
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
  in(group);
  message = message.last(in.Rest().size());
  group.ids = message.data();
  group.rows = group.ids + group.CountIdBytes();
  message = message.subspan(static_cast<size_t>(group.CountBytes()));
  return group;
}

bool HasSameForm(const RowGroup& group, const Shard& shard) {
  return group.dtype == shard.dtype && group.row_bytes == RowBytes(shard) &&
         group.fields == GetFieldsText(shard);
}

namespace {

Status ForEachRowGroup(
    const std::vector<std::span<std::byte>>& from,
    absl::FunctionRef<Status(const RowGroup& group, size_t rank)> visit) {
  for (size_t rank = 0; rank < from.size(); ++rank) {
    for (std::span<std::byte> rest = from[rank]; !rest.empty();) {
      BELAY_RETURN_IF_ERROR(visit(TakeRowGroup(rest), rank));
    }
  }
  return absl::OkStatus();
}

// --- Counts of rows ---

// Compares the number of rows on all ranks with `count`, which the program
// gave; -1: any number.
Status CheckCount(std::string_view operation, std::string_view key,
                  int64_t count, int64_t found) {
  if (count < 0 || count == found) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat(
      "%s \"%s\": %s another number of rows than was given for all ranks (need "
      "%d, found %d)",
      AbslView(operation), AbslView(key),
      operation == "save" ? "all ranks together have" : "the checkpoint has",
      count, found));
}

// The form of a key's rows; equal on all ranks that have any.
struct RowForm {
  DType dtype = DType::kU8;
  Shape row = {};
  std::string fields = {};  // of structs
  bool has_ids = false;
  int64_t count = -1;  // as in IdOptions

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

struct KeyCounts {
  RowForm form;
  int rank = 0;  // the first rank that has the key
  std::vector<int64_t> counts;
  std::vector<int64_t> first;    // the first row of each rank, then the total
  std::vector<int32_t> holders;  // ranks that have the key, even without rows
  int32_t holder_list = -1;      // index of the list; -1: all ranks
};

std::string RowFormText(const RowForm& form) {
  const std::string what =
      form.fields.empty() ? Cat(DTypeName(form.dtype), " ", ShapeText(form.row))
                          : Cat("structs of ", form.fields);
  if (!form.has_ids) return what;
  return form.count < 0 ? what + " with ids"
                        : absl::StrFormat("%s with %d ids", what, form.count);
}

Status AddCounts(const std::vector<ListedRows>& listed, int rank, int num_ranks,
                 std::map<std::string, KeyCounts>& all) {
  std::set<std::string> seen;
  for (const ListedRows& rows : listed) {
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

std::string EncodePlacements(const std::vector<ListedRows>& listed, int rank,
                             const std::map<std::string, KeyCounts>& all) {
  std::vector<RowPlacement> placements;
  for (const ListedRows& rows : listed) {
    const KeyCounts& one = all.at(rows.key);
    placements.push_back({.shard = rows.shard,
                          .first = one.first[static_cast<size_t>(rank)],
                          .total = one.first.back(),
                          .has_ids = rows.form.has_ids,
                          .holder_list = one.holder_list});
  }
  return Encode(placements);
}

// True if any rank has rows with ids; and the distinct lists of holders.
using SharedPlacements = std::pair<bool, std::vector<std::vector<int32_t>>>;

// Numbers the distinct lists of holders, so that each is sent only once.
// Otherwise every key of every rank would carry a list with up to one entry per
// rank.
SharedPlacements ShareHolders(std::map<std::string, KeyCounts>& all) {
  SharedPlacements shared;
  auto& [any_ids, holder_lists] = shared;
  std::map<std::vector<int32_t>, int32_t> numbers;
  for (auto& [key, counts] : all) {
    if (!counts.form.has_ids) continue;
    any_ids = true;
    if (counts.holders.size() == counts.counts.size()) continue;
    const auto [at, is_new] =
        numbers.emplace(counts.holders, static_cast<int32_t>(numbers.size()));
    counts.holder_list = at->second;
    if (is_new) holder_lists.push_back(counts.holders);
  }
  return shared;
}

}  // namespace

std::vector<StoredRows> FindStoredRows(const std::vector<KeyRows>& keys,
                                       const std::vector<StoredArray>& arrays) {
  std::vector<StoredRows> rows;
  for (const KeyRows& one : keys) {
    const size_t array = FirstFrom(arrays, one.key);
    if (array == arrays.size() || arrays[array].key != one.key) continue;
    // A copy may have stored a different array under this key.
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

std::vector<KeyRows> ListKeyRows(const SavedCheckpoint& saved) {
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
                            .fields = GetFieldsText(shard),
                            .has_ids = HasIds(shard),
                            .count = shard.rows->count},
                   .count = shape[0]});
  }
  return Encode(all);
}

StatusOr<MergedRows> MergeRowCounts(const std::vector<std::string>& gathered) {
  const auto num_ranks = static_cast<int>(gathered.size());
  // Decodes each message twice, because keeping all of them decoded would take
  // too much memory.
  const auto decode = [&](int rank) {
    const std::string& bytes = gathered[static_cast<size_t>(rank)];
    return Decode<std::vector<ListedRows>>(bytes).value();
  };
  std::map<std::string, KeyCounts> all;
  for (int rank = 0; rank < num_ranks; ++rank) {
    BELAY_RETURN_IF_ERROR(AddCounts(decode(rank), rank, num_ranks, all));
  }
  MergedRows merged;
  for (auto& [key, counts] : all) {
    counts.first.assign(1, 0);
    std::partial_sum(counts.counts.begin(), counts.counts.end(),
                     std::back_inserter(counts.first));
    BELAY_RETURN_IF_ERROR(
        CheckCount("save", key, counts.form.count, counts.first.back()));
    if (counts.form.has_ids) continue;
    merged.keys.push_back({key, MakeRowRanks(counts.counts)});
  }
  merged.common = Encode(ShareHolders(all));
  for (int rank = 0; rank < num_ranks; ++rank) {
    merged.parts.push_back(EncodePlacements(decode(rank), rank, all));
  }
  return merged;
}

RowPlacements DecodePlacements(std::string_view common, std::string_view part) {
  const auto [any_ids, lists] = Decode<SharedPlacements>(common).value();
  RowPlacements placements{.any_ids = any_ids};
  placements.shards = Decode<std::vector<RowPlacement>>(part).value();
  for (RowPlacement& one : placements.shards) {
    if (one.holder_list < 0) continue;
    one.holders = lists[static_cast<size_t>(one.holder_list)];
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

// --- Rows with ids ---

namespace {

// Limits of the bytes that a rank sends in one exchange. Together with the
// bytes that it receives they should fit into a cache, but each message should
// be long enough to use the network efficiently.
constexpr int64_t kWindowBytes = int64_t{8} << 20;
constexpr int64_t kBytesPerRank = int64_t{64} << 10;
constexpr int64_t kMaxBytes = int64_t{64} << 20;

// The rows that a rank gets: [begin, end).
struct RowSpan {
  int64_t begin = 0;
  int64_t end = 0;
  bool is_kept = false;  // the rank gets none and keeps its current rows
};

// Returns the rows of `rank` if all rows are divided evenly among the ranks in
// `some`, which is ascending; empty: among all ranks.
RowSpan CutEvenly(int64_t total, const std::vector<int32_t>& some, int rank,
                  int num_ranks) {
  int64_t place = rank, ranks = num_ranks;
  if (!some.empty()) {
    place = std::lower_bound(some.begin(), some.end(), rank) - some.begin();
    ranks = std::ssize(some);
  }
  return {FirstOfEven(total, place, ranks),
          FirstOfEven(total, place + 1, ranks)};
}

// Calls `ask`, which gets ids from the program.
template <typename Ask>
Status AskProgram(std::string_view operation, const IdBlock& block, Ask ask) {
  return AddPrefix(CatchExceptions([&] {
                     ask();
                     return absl::OkStatus();
                   }),
                   operation, " \"", block.shard.key, "\": its ids");
}

// Finds the block of a group of rows that another rank has sent.
// Errors: FailedPrecondition - there is no such block, or its rows have another
//   form; names the key and the rank.
StatusOr<size_t> FindBlock(std::string_view operation,
                           const std::vector<IdBlock>& blocks,
                           const BlocksByKey& by_key, const RowGroup& group,
                           size_t rank) {
  const auto found = by_key.find(group.key);
  if (found != by_key.end()) {
    for (const size_t i : found->second) {
      if (HasSameForm(group, blocks[i].shard)) return i;
    }
  }
  return absl::FailedPreconditionError(Cat(
      operation, " \"", GetStoredKey(group.key),
      "\": the rows of the ranks differ in dtype, shape or ids (rank ", rank,
      " has ", DTypeName(group.dtype), " with ids, and this rank does not)"));
}

// Asks the program for the ids of a slice.
// Errors: InvalidArgument - an id is out of range; names the key and the id.
//   What the program's function for ids threw; names the key.
StatusOr<std::vector<int64_t>> ReadIds(std::string_view operation,
                                       const IdBlock& block,
                                       const IdSlice& slice) {
  const RankRows& rows = *block.shard.rows;
  std::vector<int64_t> ids(static_cast<size_t>(slice.end - slice.begin));
  const auto first = static_cast<size_t>(slice.begin);
  BELAY_RETURN_IF_ERROR(AskProgram(operation, block, [&] {
    for (size_t i = 0; i < ids.size(); ++i) ids[i] = rows.id(first + i);
  }));
  const auto bad = std::find_if(ids.begin(), ids.end(), [&](int64_t id) {
    return id < 0 || id >= block.total;
  });
  if (bad == ids.end()) return ids;
  return absl::InvalidArgumentError(absl::StrFormat(
      "%s \"%s\": id %d at position %d is out of range (need 0 to %d); "
      "%s",
      AbslView(operation), block.shard.key, *bad,
      slice.begin + (bad - ids.begin()), block.total - 1,
      operation == "save" ? "the ids of all ranks are 0, 1, ..., each once"
                          : "the checkpoint has no more rows"));
}

Status CountIds(std::string_view operation, IdBlock& block) {
  return AskProgram(operation, block, [&] {
    block.num_ids = static_cast<int64_t>(block.shard.rows->num_ids());
  });
}

// Divides numbers below 2^52 by a constant, faster than an integer division.
// Every id is divided.
class Divisor {
 public:
  explicit Divisor(int64_t divisor)
      : divisor_(divisor), inverse_(1.0 / static_cast<double>(divisor)) {}

  int64_t Quotient(int64_t number) const {
    auto quotient =
        static_cast<int64_t>(static_cast<double>(number) * inverse_);
    const int64_t rest = number - quotient * divisor_;
    if (rest < 0) return quotient - 1;
    return rest >= divisor_ ? quotient + 1 : quotient;
  }

 private:
  int64_t divisor_;
  double inverse_;
};

Status PackSlice(const IdBlock& block, const IdSlice& slice, Messages& to) {
  const int num_ranks = static_cast<int>(to.size());
  BELAY_ASSIGN_OR_RETURN(const std::vector<int64_t> ids,
                         ReadIds("save", block, slice));
  const std::vector<int32_t> ranks = FindHolders(block, ids, num_ranks);
  std::vector<RowGroupRoom> next =
      AppendRowGroups(block.shard, ranks, RowParts::kIdsAndRows, to);
  const int64_t bytes = RowBytes(block.shard);
  const int64_t in_memory = RowBytesInMemory(block.shard);
  const auto* row =
      static_cast<const char*>(block.shard.data) + slice.begin * in_memory;
  WithProgramCopier(block.shard, true, [&](auto pack) {
    for (size_t i = 0; i < ids.size(); ++i, row += in_memory) {
      RowGroupRoom& room = next[static_cast<size_t>(ranks[i])];
      std::memcpy(room.ids, &ids[i], sizeof(ids[i]));
      pack(row, room.rows);
      room.ids += sizeof(ids[i]);
      room.rows += bytes;
    }
  });
  return absl::OkStatus();
}

Status UnpackGroup(const RowGroup& group, int32_t rank, IdBlock& block) {
  Status status;
  const std::span<int32_t> senders = block.senders;
  std::byte* const rows = block.rows.get();
  const int64_t bytes = group.row_bytes;
  WithCopier(bytes, [&](auto copy) {
    for (int64_t i = 0; i < group.count; ++i) {
      if (i + kRowsAhead < group.count) {
        const int64_t later = group.id(i + kRowsAhead) - block.first;
        PrefetchRow(rows + later * bytes, bytes);
        PrefetchRow(&senders[static_cast<size_t>(later)], sizeof(int32_t));
      }
      const int64_t place = group.id(i) - block.first;
      int32_t& sender = senders[static_cast<size_t>(place)];
      if (sender != kNoSender) {
        status = absl::InvalidArgumentError(absl::StrFormat(
            "save \"%s\": id %d appears twice (rank %d has it, and rank %d)",
            block.shard.key, group.id(i), sender, rank));
        return;
      }
      sender = rank;
      copy(group.rows + i * bytes, rows + place * bytes);
    }
  });
  return status;
}

// Resizes the program's ranges to one row per id.
Status ResizeRanges(std::vector<IdBlock>& blocks,
                    std::vector<FormerElements>& former) {
  std::vector<Shard> shards;
  for (IdBlock& block : blocks) {
    Shard& shard = shards.emplace_back(block.shard);
    BELAY_RETURN_IF_ERROR(FindElements(shard));
    const int64_t count = block.num_ids;
    if (shard.global_shape[0] == count) continue;
    if (!CanResize(shard)) {
      return absl::FailedPreconditionError(absl::StrFormat(
          "restore \"%s\": the numbers of ids and rows differ, and the range "
          "has a fixed length (found %d ids, %d rows)",
          shard.key, count, shard.global_shape[0]));
    }
    former.push_back(GetElements(shard));
    BELAY_RETURN_IF_ERROR(Resize(count * NumElements(shard.rows->row), shard));
  }
  BELAY_RETURN_IF_ERROR(CheckAfterLengths(former, {}, shards));
  for (size_t i = 0; i < blocks.size(); ++i) {
    blocks[i].shard = std::move(shards[i]);
  }
  return absl::OkStatus();
}

// Appends the requested rows.
void AppendRows(const RowGroup& group, const IdBlock& block, Message& to) {
  const int64_t bytes = group.row_bytes;
  std::byte* next = to.Extend(static_cast<size_t>(group.count * bytes));
  const std::byte* const rows = block.rows.get();
  WithCopier(bytes, [&](auto copy) {
    for (int64_t i = 0; i < group.count; ++i, next += bytes) {
      if (i + kRowsAhead < group.count) {
        const int64_t later = group.id(i + kRowsAhead) - block.first;
        PrefetchRow(rows + later * bytes, bytes);
      }
      copy(rows + (group.id(i) - block.first) * bytes, next);
    }
  });
}

}  // namespace

StatusOr<Shard> TakeBlock(int rank, int num_ranks, IdBlock& block) {
  const RowSpan part = CutEvenly(block.total, block.holders, rank, num_ranks);
  block.first = part.begin;
  block.count = part.end - part.begin;
  const int64_t bytes = block.count * RowBytes(block.shard);
  BELAY_RETURN_IF_ERROR(CatchBadAlloc(
      Cat("\"", block.shard.key, "\": ", bytes, " bytes of rows"), [&] {
        block.rows = NewBytes(std::max<int64_t>(1, bytes));
        return absl::OkStatus();
      }));
  Shard shard = block.shard;
  shard.global_shape[0] = block.total;
  shard.box = WholeBox(shard.global_shape);
  shard.box.offset[0] = block.first;
  shard.box.shape[0] = block.count;
  shard.data = block.rows.get();
  shard.object = nullptr;
  shard.access = nullptr;
  shard.object_elements = -1;
  shard.rows = nullptr;
  if (shard.structs == nullptr) return shard;
  if (shard.structs->text.empty()) {
    shard.structs = nullptr;
  } else {
    BELAY_ASSIGN_OR_RETURN(shard.structs, StoredLayout(shard.structs->text));
  }
  return shard;
}

BlocksByKey IndexBlocks(const std::vector<IdBlock>& blocks) {
  BlocksByKey by_key;
  for (size_t i = 0; i < blocks.size(); ++i) {
    by_key[RowsId(blocks[i].shard)].push_back(i);
  }
  return by_key;
}

std::vector<IdWindow> CutWindows(const std::vector<IdBlock>& blocks,
                                 int num_ranks) {
  const int64_t window =
      std::clamp(kBytesPerRank * num_ranks, kWindowBytes, kMaxBytes);
  std::vector<IdWindow> windows;
  int64_t left = 0;
  for (size_t i = 0; i < blocks.size(); ++i) {
    const int64_t bytes =
        static_cast<int64_t>(sizeof(int64_t)) + RowBytes(blocks[i].shard);
    for (int64_t begin = 0; begin < blocks[i].num_ids;) {
      if (left < bytes) {
        windows.emplace_back();
        left = std::max(window, bytes);
      }
      const int64_t end = std::min(blocks[i].num_ids, begin + left / bytes);
      windows.back().push_back({.block = i, .begin = begin, .end = end});
      left -= (end - begin) * bytes;
      begin = end;
    }
  }
  return windows;
}

int64_t NumHolders(const IdBlock& block, int num_ranks) {
  return block.holders.empty() ? num_ranks : std::ssize(block.holders);
}

std::vector<int32_t> FindHolders(const IdBlock& block,
                                 std::span<const int64_t> ids, int num_ranks) {
  const int64_t holders = NumHolders(block, num_ranks);
  const int64_t each = block.total / holders, more = block.total % holders;
  const int64_t longer = more * (each + 1);
  const Divisor long_part(each + 1), short_part(std::max<int64_t>(1, each));
  std::vector<int32_t> ranks(ids.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    const int64_t place = ids[i] < longer
                              ? long_part.Quotient(ids[i])
                              : more + short_part.Quotient(ids[i] - longer);
    ranks[i] = block.holders.empty()
                   ? static_cast<int32_t>(place)
                   : block.holders[static_cast<size_t>(place)];
  }
  return ranks;
}

Status TakeIds(IdBlock& block) {
  BELAY_RETURN_IF_ERROR(CountIds("save", block));
  const int64_t rows = block.shard.global_shape[0];
  if (block.num_ids == rows) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat(
      "save \"%s\": the numbers of ids and rows differ (%d ids, %d rows)",
      block.shard.key, block.num_ids, rows));
}

void NoteNoSender(IdBlock& block) {
  const auto count = static_cast<size_t>(block.count);
  block.sender_memory = NewBytes(static_cast<int64_t>(count * sizeof(int32_t)));
  block.senders = {new (block.sender_memory.get()) int32_t[count], count};
  std::fill(block.senders.begin(), block.senders.end(), kNoSender);
}

Status PackWindow(const std::vector<IdBlock>& blocks, const IdWindow& window,
                  Messages& to) {
  for (const IdSlice& slice : window) {
    BELAY_RETURN_IF_ERROR(PackSlice(blocks[slice.block], slice, to));
  }
  return absl::OkStatus();
}

Status FillBlocks(const std::vector<std::span<std::byte>>& from,
                  const BlocksByKey& by_key, std::vector<IdBlock>& blocks) {
  return ForEachRowGroup(
      from, [&](const RowGroup& group, size_t rank) -> Status {
        BELAY_ASSIGN_OR_RETURN(const size_t i,
                               FindBlock("save", blocks, by_key, group, rank));
        return UnpackGroup(group, static_cast<int32_t>(rank), blocks[i]);
      });
}

std::string KeyOutOfRange(const std::vector<IdBlock>& blocks) {
  for (const IdBlock& block : blocks) {
    const IdSlice all{.begin = 0, .end = block.num_ids};
    if (!ReadIds("save", block, all).ok()) return block.shard.key;
  }
  return "";
}

SortedIds SortIds(const std::vector<IdBlock>& blocks, std::string_view key) {
  SortedIds sorted;
  for (const IdBlock& block : blocks) {
    if (block.shard.key != key) continue;
    sorted.total = block.total;
    for (int64_t i = 0; i < block.num_ids; ++i) {
      sorted.ids.push_back(block.shard.rows->id(static_cast<size_t>(i)));
    }
  }
  std::sort(sorted.ids.begin(), sorted.ids.end());
  return sorted;
}

Status CheckFilled(const std::vector<IdBlock>& blocks) {
  for (const IdBlock& block : blocks) {
    const std::span<const int32_t> ranks = block.senders;
    const auto missing = std::count(ranks.begin(), ranks.end(), kNoSender);
    if (missing == 0) continue;
    const auto first = std::find(ranks.begin(), ranks.end(), kNoSender);
    return absl::InvalidArgumentError(absl::StrFormat(
        "save \"%s\": no rank has id %d; %d of the ids %d to %d are missing",
        block.shard.key, block.first + (first - ranks.begin()), missing,
        block.first, block.first + block.count - 1));
  }
  return absl::OkStatus();
}

StatusOr<WantedIds> AskForIds(std::vector<IdBlock>& blocks,
                              std::vector<FormerElements>& former) {
  WantedIds wanted;
  for (IdBlock& block : blocks) {
    BELAY_RETURN_IF_ERROR(CountIds("restore", block));
    BELAY_ASSIGN_OR_RETURN(
        wanted.emplace_back(),
        ReadIds("restore", block, {.begin = 0, .end = block.num_ids}));
  }
  BELAY_RETURN_IF_ERROR(ResizeRanges(blocks, former));
  return wanted;
}

Status CheckNothingIsThere(const std::vector<IdBlock>& blocks) {
  for (const IdBlock& block : blocks) {
    if (block.total == 0) continue;
    return absl::FailedPreconditionError(
        absl::StrFormat("restore \"%s\": no rank has an id, and %d rows are "
                        "stored: set the ids to what each rank is to get",
                        block.shard.key, block.total));
  }
  return absl::OkStatus();
}

RowRanksOfWindow RequestRows(const std::vector<IdBlock>& blocks,
                             const WantedIds& wanted, const IdWindow& window,
                             Messages& to) {
  RowRanksOfWindow all;
  for (const IdSlice& slice : window) {
    const IdBlock& block = blocks[slice.block];
    const auto ids = std::span(wanted[slice.block])
                         .first(static_cast<size_t>(slice.end))
                         .subspan(static_cast<size_t>(slice.begin));
    const std::vector<int32_t> ranks =
        FindHolders(block, ids, static_cast<int>(to.size()));
    std::vector<RowGroupRoom> next =
        AppendRowGroups(block.shard, ranks, RowParts::kIds, to);
    for (size_t i = 0; i < ids.size(); ++i) {
      RowGroupRoom& room = next[static_cast<size_t>(ranks[i])];
      std::memcpy(room.ids, &ids[i], sizeof(ids[i]));
      room.ids += sizeof(ids[i]);
    }
    all.insert(all.end(), ranks.begin(), ranks.end());
  }
  return all;
}

Status AnswerRequests(const std::vector<std::span<std::byte>>& requests,
                      const BlocksByKey& by_key,
                      const std::vector<IdBlock>& blocks, Messages& to) {
  return ForEachRowGroup(
      requests, [&](const RowGroup& group, size_t rank) -> Status {
        BELAY_ASSIGN_OR_RETURN(
            const size_t i, FindBlock("restore", blocks, by_key, group, rank));
        AppendRows(group, blocks[i], to[rank]);
        return absl::OkStatus();
      });
}

void TakeAnswers(const std::vector<std::span<std::byte>>& answers,
                 const IdWindow& window, const RowRanksOfWindow& ranks,
                 std::vector<IdBlock>& blocks) {
  std::vector<const std::byte*> next;
  for (const std::span<std::byte> answer : answers) {
    next.push_back(answer.data());
  }
  const int32_t* rank = ranks.data();
  for (const IdSlice& slice : window) {
    const Shard& shard = blocks[slice.block].shard;
    const int64_t bytes = RowBytes(shard);
    const int64_t in_memory = RowBytesInMemory(shard);
    auto* row = static_cast<char*>(shard.data) + slice.begin * in_memory;
    WithProgramCopier(shard, false, [&](auto unpack) {
      for (int64_t i = slice.begin; i < slice.end; ++i, row += in_memory) {
        const std::byte*& from = next[static_cast<size_t>(*rank++)];
        unpack(from, row);
        from += bytes;
      }
    });
  }
}

Status CheckSameIds(const std::vector<IdBlock>& blocks,
                    const WantedIds& wanted) {
  for (size_t b = 0; b < blocks.size(); ++b) {
    const RankRows& rows = *blocks[b].shard.rows;
    const std::vector<int64_t>& ids = wanted[b];
    bool is_same = rows.num_ids() == ids.size();
    for (size_t i = 0; is_same && i < ids.size(); ++i) {
      is_same = rows.id(i) == ids[i];
    }
    if (is_same) continue;
    return absl::InvalidArgumentError(
        Cat("restore \"", blocks[b].shard.key, "\": its ids are rows with ids ",
            "themselves, which the same restore reads; restore the ids first, ",
            "in a call of their own"));
  }
  return absl::OkStatus();
}

// --- Rows with owners ---

namespace {

StatusOr<std::vector<int32_t>> FindOwners(const Shard& shard, int num_ranks) {
  const auto* row = static_cast<const char*>(shard.data);
  std::vector<int32_t> owners(static_cast<size_t>(shard.box.shape[0]));
  for (size_t i = 0; i < owners.size(); ++i, row += RowBytesInMemory(shard)) {
    const StatusOr<int> owner =
        CatchExceptions([&] { return shard.rows->owner(row); });
    if (!owner.ok()) {
      return AddPrefix(owner.status(), "restore \"", shard.key,
                       "\": the function `owner`");
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

Status PackRows(const Shard& shard, Messages& to) {
  BELAY_ASSIGN_OR_RETURN(const std::vector<int32_t> owners,
                         FindOwners(shard, static_cast<int>(to.size())));
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

Status UnpackRows(const std::vector<RowGroup>& arrived, Shard& shard) {
  int64_t count = 0;
  for (const RowGroup& one : arrived) {
    count += one.count;
    if (HasSameForm(one, shard)) continue;
    return absl::FailedPreconditionError(absl::StrFormat(
        "restore \"%s\": ranks have rows of other types (need %s in %d bytes, "
        "found %s in %d)",
        shard.key, DTypeName(shard.dtype), RowBytes(shard),
        DTypeName(one.dtype), one.row_bytes));
  }
  // A shard under another key may have resized the same range.
  BELAY_RETURN_IF_ERROR(FindElements(shard));
  if (count != shard.box.shape[0] || HasNewRows(shard)) {
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
    BELAY_RETURN_IF_ERROR(PackRows(shard, to));
  }
  return absl::OkStatus();
}

Status TakeOwned(const std::vector<std::span<std::byte>>& from,
                 std::vector<Shard>& shards) {
  // By RowsId, in rank order.
  std::map<std::string_view, std::vector<RowGroup>> arrived;
  BELAY_RETURN_IF_ERROR(
      ForEachRowGroup(from, [&](const RowGroup& group, size_t) {
        arrived[group.key].push_back(group);
        return absl::OkStatus();
      }));
  const std::vector<RowGroup> none;
  for (Shard& shard : shards) {
    if (!HasOwner(shard)) continue;
    auto found = arrived.extract(RowsId(shard));
    BELAY_RETURN_IF_ERROR(
        UnpackRows(found.empty() ? none : found.mapped(), shard));
  }
  if (arrived.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      Cat("restore \"", GetStoredKey(arrived.begin()->first),
          "\": this rank owns rows of it, and does not restore it"));
}

// --- Placement of rows in a restore ---

namespace {

Status OtherRanksError(const FoundRows& found, const RankRows& rows,
                       int num_ranks) {
  return absl::FailedPreconditionError(absl::StrFormat(
      "restore \"%s\": this value is per rank, and other ranks have saved it "
      "(need "
      "%d ranks that restore it, found %d); choose what the others get: %s%s%s",
      GetStoredKey(found.id), found.ranks.ranks,
      found.restorers.empty() ? num_ranks : std::ssize(found.restorers),
      kFirstWord.InProgram(),
      rows.is_text ? "" : Cat(" or ", kEvenWord.InProgram()),
      kOrSourceWord.InProgram()));
}

// Asks the program's function `source`.
StatusOr<RowSpan> ChooseRange(const FoundRows& found, const RankRows& rows,
                              int rank, int num_ranks) {
  const auto saved = static_cast<int>(found.ranks.ranks);
  const StatusOr<int> named =
      CatchExceptions([&] { return rows.source(rank, num_ranks, saved); });
  if (!named.ok()) {
    return AddPrefix(named.status(), "restore \"", GetStoredKey(found.id),
                     "\": the function `source`");
  }
  const int source = *named;
  if (source == -1) return RowSpan{.is_kept = rows.is_per_rank};
  if (source < -1 || source >= saved) {
    return absl::InvalidArgumentError(
        absl::StrFormat("restore \"%s\": the function `source` returned a rank "
                        "that has not saved (need -1 to %d, found %d)",
                        GetStoredKey(found.id), saved - 1, source));
  }
  return RowSpan{found.ranks.FirstOf(source), found.ranks.FirstOf(source + 1)};
}

// Returns true if every rank that had rows restores them.
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

StatusOr<RowSpan> FindRange(const FoundRows& found, const RankRows& rows,
                            int rank, int num_ranks) {
  const bool is_said = found.ranks.ranks > 0;
  if (rows.owner == nullptr && is_said) {
    if (found.ranks.ranks == num_ranks && AllRestore(found)) {
      return RowSpan{found.ranks.FirstOf(rank), found.ranks.FirstOf(rank + 1)};
    }
    if (rows.source != nullptr) {
      return ChooseRange(found, rows, rank, num_ranks);
    }
    if (rows.other_ranks == OtherRanks::kFirst) {
      return RowSpan{0, found.ranks.FirstOf(1)};
    }
  }
  const bool is_even =
      rows.other_ranks == OtherRanks::kEven && rows.source == nullptr;
  if (rows.owner != nullptr || is_even) {
    return CutEvenly(found.shape[0], found.restorers, rank, num_ranks);
  }
  if (is_said) return OtherRanksError(found, rows, num_ranks);
  return absl::FailedPreconditionError(Cat(
      "restore \"", GetStoredKey(found.id), "\": the array was not saved ",
      "as rows of ranks, so it is unknown which rank had which rows: add it ",
      "as it was saved, or as rows with ", kEvenWord.InProgram()));
}

// Resizes a shard to a range of the rows of the array.
Status TakeRange(const RowSpan& range, int64_t total, Shard& shard,
                 std::vector<FormerElements>& former) {
  const int64_t count = range.end - range.begin;
  if (range.is_kept) {
    shard.object = nullptr;
    shard.access = nullptr;
    shard.object_elements = -1;
    shard.box.shape[0] = 0;
  } else if (shard.global_shape[0] != count || HasNewRows(shard)) {
    former.push_back(GetElements(shard));
    BELAY_RETURN_IF_ERROR(ResizeRows(count, shard));
  }
  if (shard.access != nullptr) {
    shard.object_elements = count * NumElements(shard.rows->row);
  }
  shard.global_shape[0] = total;
  shard.box.offset[0] = range.begin;
  if (shard.structs != nullptr) {
    shard.global_shape.back() = shard.structs->stored_bytes;
    shard.box.shape.back() = shard.structs->stored_bytes;
  }
  return absl::OkStatus();
}

// Matches the fields of structs with the stored fields.
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
  return UseStoredFields(found.fields, found.shape[1], shard.rows->other_fields,
                         shard);
}

// Returns the stored rows of a shard. Returns null if nothing or a single
// number is stored; the plan then reports an error.
const FoundRows* Find(const Shard& shard, const std::vector<FoundRows>& found) {
  const std::string id = RowsId(shard);
  const auto one = std::lower_bound(
      found.begin(), found.end(), id,
      [](const FoundRows& a, const std::string& b) { return a.id < b; });
  const bool is_there =
      one != found.end() && one->id == id && !one->shape.empty();
  return is_there ? &*one : nullptr;
}

}  // namespace

Status PlaceRows(const std::vector<FoundRows>& found, int rank, int num_ranks,
                 std::vector<Shard>& shards,
                 std::vector<FormerElements>& former,
                 std::vector<IdBlock>& blocks) {
  // Replaces rows with ids by their blocks, which the second loop skips.
  for (Shard& shard : shards) {
    if (!HasIds(shard)) continue;
    const FoundRows* const one = Find(shard, found);
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
    const FoundRows* const one = Find(shard, found);
    if (one == nullptr) continue;
    BELAY_RETURN_IF_ERROR(TakeFields(*one, shard));
    const bool has_form =
        shard.structs != nullptr
            ? one->shape.size() == 2
            : std::equal(one->shape.begin() + 1, one->shape.end(),
                         shard.rows->row.begin(), shard.rows->row.end());
    if (!has_form) {  // the plan reports an error
      shard.global_shape[0] = one->shape[0];
      continue;
    }
    if (shard.rows->owner != nullptr && !CanResize(shard)) {
      return absl::FailedPreconditionError(Cat(
          "restore \"", shard.key, "\": rows that go to their owners need a ",
          "range that can change its length, such as a std::vector"));
    }
    BELAY_ASSIGN_OR_RETURN(const RowSpan range,
                           FindRange(*one, *shard.rows, rank, num_ranks));
    BELAY_RETURN_IF_ERROR(TakeRange(range, one->shape[0], shard, former));
  }
  return absl::OkStatus();
}

}  // namespace belay
