#include "state/id_rows.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "belay/rows.h"
#include "core/catch_exceptions.h"
#include "core/flat_buffer.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "plan/stored_objects.h"
#include "state/memory_layout.h"
#include "state/rank_rows.h"

namespace belay {
namespace {

// What a rank sends at once: a cache holds it, and what it gets, while that to
// one other rank is still long enough for a network.
constexpr int64_t kWindowBytes = int64_t{8} << 20;
constexpr int64_t kBytesPerRank = int64_t{64} << 10;
constexpr int64_t kMostBytes = int64_t{64} << 20;

// What went wrong in asking the program for its ids.
Status OfIds(std::string_view operation, const IdBlock& block,
             const Status& status) {
  return Status(status.code(), Cat(operation, " \"", block.shard.key,
                                   "\": its ids: ", status.message()));
}

}  // namespace

bool HasIds(const Shard& shard) {
  return shard.rows != nullptr && shard.rows->id != nullptr &&
         shard.rows->num_ids != nullptr;
}

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

StatusOr<Shard> TakeBlock(int rank, int num_ranks, IdBlock& block) {
  int64_t place = rank;
  if (!block.holders.empty()) {
    place = std::lower_bound(block.holders.begin(), block.holders.end(), rank) -
            block.holders.begin();
  }
  const int64_t holders = NumHolders(block, num_ranks);
  block.first = FirstOfEven(block.total, place, holders);
  block.count = FirstOfEven(block.total, place + 1, holders) - block.first;
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

StatusOr<size_t> FindBlock(const std::vector<IdBlock>& blocks,
                           const BlocksByKey& by_key, const RowGroup& group,
                           size_t rank) {
  const auto found = by_key.find(group.key);
  if (found != by_key.end()) {
    for (const size_t i : found->second) {
      if (HasFormOf(group, blocks[i].shard)) return i;
    }
  }
  return absl::FailedPreconditionError(
      absl::StrFormat("\"%s\": the rows of the ranks differ in dtype, shape or "
                      "ids (rank %d has %s "
                      "with ids, and this rank does not)",
                      StoredKeyOfId(group.key), rank, DTypeName(group.dtype)));
}

std::vector<IdWindow> CutWindows(const std::vector<IdBlock>& blocks,
                                 int num_ranks) {
  const int64_t window =
      std::clamp(kBytesPerRank * num_ranks, kWindowBytes, kMostBytes);
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

StatusOr<std::vector<int64_t>> IdsOf(std::string_view operation,
                                     const IdBlock& block,
                                     const IdSlice& slice) {
  const RankRows& rows = *block.shard.rows;
  std::vector<int64_t> ids(static_cast<size_t>(slice.end - slice.begin));
  const auto first = static_cast<size_t>(slice.begin);
  const Status asked = CatchExceptions([&] {
    for (size_t i = 0; i < ids.size(); ++i) ids[i] = rows.id(first + i);
    return absl::OkStatus();
  });
  if (!asked.ok()) return OfIds(operation, block, asked);
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
  const Status counted = CatchExceptions([&] {
    block.num_ids = static_cast<int64_t>(block.shard.rows->num_ids());
    return absl::OkStatus();
  });
  return counted.ok() ? counted : OfIds(operation, block, counted);
}

// --- Id holders ---

namespace {

// Divides by a number that stays the same, faster than the processor does:
// every id is divided. For numbers below 2^52.
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

}  // namespace

int64_t NumHolders(const IdBlock& block, int num_ranks) {
  return block.holders.empty() ? num_ranks : std::ssize(block.holders);
}

std::vector<int32_t> HoldersOf(const IdBlock& block,
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

// --- Id save ---

namespace {

Status PackSlice(const IdBlock& block, const IdSlice& slice, Messages& to) {
  const int num_ranks = static_cast<int>(to.size());
  BELAY_ASSIGN_OR_RETURN(const std::vector<int64_t> ids,
                         IdsOf("save", block, slice));
  const std::vector<int32_t> ranks = HoldersOf(block, ids, num_ranks);
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

Status TwiceError(const IdBlock& block, int64_t id, int32_t first,
                  int32_t second) {
  return absl::InvalidArgumentError(absl::StrFormat(
      "save \"%s\": id %d appears twice (rank %d has it, and rank %d)",
      block.shard.key, id, first, second));
}

// Puts the rows of a group, which a rank has sent, into their block.
Status PutRows(const RowGroup& group, int32_t rank, IdBlock& block) {
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
        status = TwiceError(block, group.id(i), sender, rank);
        return;
      }
      sender = rank;
      copy(group.rows + i * bytes, rows + place * bytes);
    }
  });
  return status;
}

}  // namespace

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
  for (size_t rank = 0; rank < from.size(); ++rank) {
    for (std::span<std::byte> rest = from[rank]; !rest.empty();) {
      const RowGroup group = TakeRowGroup(rest);
      BELAY_ASSIGN_OR_RETURN(const size_t i,
                             FindBlock(blocks, by_key, group, rank));
      BELAY_RETURN_IF_ERROR(
          PutRows(group, static_cast<int32_t>(rank), blocks[i]));
    }
  }
  return absl::OkStatus();
}

std::string KeyOutOfRange(const std::vector<IdBlock>& blocks) {
  for (const IdBlock& block : blocks) {
    const IdSlice all{.begin = 0, .end = block.num_ids};
    if (!IdsOf("save", block, all).ok()) return block.shard.key;
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

// --- Id restore ---

namespace {

// Gives the program's ranges as many rows as they have ids, and finds them.
Status GiveLengths(std::vector<IdBlock>& blocks,
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
    former.push_back(ElementsOf(shard));
    BELAY_RETURN_IF_ERROR(Resize(count * NumElements(shard.rows->row), shard));
  }
  BELAY_RETURN_IF_ERROR(CheckAfterLengths(former, {}, shards));
  for (size_t i = 0; i < blocks.size(); ++i) {
    blocks[i].shard = std::move(shards[i]);
  }
  return absl::OkStatus();
}

// Appends the rows that a group asks for.
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

StatusOr<WantedIds> AskForIds(std::vector<IdBlock>& blocks,
                              std::vector<FormerElements>& former) {
  WantedIds wanted;
  for (IdBlock& block : blocks) {
    BELAY_RETURN_IF_ERROR(CountIds("restore", block));
    BELAY_ASSIGN_OR_RETURN(
        wanted.emplace_back(),
        IdsOf("restore", block, {.begin = 0, .end = block.num_ids}));
  }
  BELAY_RETURN_IF_ERROR(GiveLengths(blocks, former));
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
        HoldersOf(block, ids, static_cast<int>(to.size()));
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
  for (size_t rank = 0; rank < requests.size(); ++rank) {
    for (std::span<std::byte> rest = requests[rank]; !rest.empty();) {
      const RowGroup group = TakeRowGroup(rest);
      const StatusOr<size_t> found = FindBlock(blocks, by_key, group, rank);
      if (!found.ok()) {
        return Status(found.status().code(),
                      Cat("restore ", found.status().message()));
      }
      AppendRows(group, blocks[*found], to[rank]);
    }
  }
  return absl::OkStatus();
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

}  // namespace belay
