#include "types/id_rows.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/huge_pages.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "base/wire.h"
#include "base/with_memory.h"
#include "belay/rows.h"
#include "model/stored_rows.h"
#include "types/id_holders.h"
#include "types/rank_rows.h"
#include "types/row_copier.h"
#include "types/struct_layout.h"

namespace belay {
namespace {

// More are counted only.
constexpr int64_t kNobody = -1;

// The ids of the program, each in range.
StatusOr<std::vector<int64_t>> IdsOf(const IdBlock& block,
                                     std::string_view operation) {
  const RankRows& rows = *block.shard.rows;
  std::vector<int64_t> ids(rows.num_ids());
  for (size_t i = 0; i < ids.size(); ++i) {
    ids[i] = rows.id(i);
    if (ids[i] >= 0 && ids[i] < block.total) continue;
    return absl::InvalidArgumentError(
        absl::StrFormat("%s \"%s\": id %d, which stands at %d, is out of range "
                        "(need 0 to %d); all ranks together have %d rows: an "
                        "id may be missing, or they begin at 1",
                        AbslView(operation), block.shard.key, ids[i], i,
                        block.total - 1, block.total));
  }
  return ids;
}

// Room for `bytes` more behind an id, a dtype and a number in what goes to a
// rank.
char* Extend(const Shard& shard, int64_t count, int64_t bytes,
             std::string& to) {
  WireWriter head;
  head.PutText(RowsId(shard));
  head.Put(shard.dtype);
  head.Put(count);
  to += head.bytes();
  const size_t begin = to.size();
  to.resize(begin + static_cast<size_t>(bytes));
  return to.data() + begin;
}

// Ids of one key, from or for one rank, and what is behind them.
struct Group {
  const IdBlock* block = nullptr;
  int64_t count = 0;
  const std::byte* ids = nullptr;
  const std::byte* rows = nullptr;

  int64_t id(int64_t i) const {
    int64_t value = 0;
    std::memcpy(&value, ids + i * 8, sizeof(value));
    return value;
  }
};

// The block of these rows, if there is one.
const IdBlock* FindBlock(const std::vector<IdBlock>& blocks,
                         std::string_view id, DType dtype) {
  for (const IdBlock& one : blocks) {
    if (RowsId(one.shard) == id && one.shard.dtype == dtype) return &one;
  }
  return nullptr;
}

// Takes the message of a rank apart, which has groups.
// Errors: FailedPrecondition - this rank has no such block; what `visit` finds.
template <typename Visit>
Status ForEachGroup(std::span<std::byte> message, size_t rank,
                    const std::vector<IdBlock>& blocks, bool has_rows,
                    Visit visit) {
  std::string_view rest(reinterpret_cast<const char*>(message.data()),
                        message.size());
  while (!rest.empty()) {
    WireReader in(rest);
    const std::string_view id = in.GetText();
    const auto dtype = in.Get<DType>();
    Group group{.count = in.Get<int64_t>()};
    rest = in.Rest();
    group.block = FindBlock(blocks, id, dtype);
    if (group.block == nullptr) {
      return absl::FailedPreconditionError(absl::StrFormat(
          "\"%s\": ranks have rows of other forms (rank %d has %s with ids, "
          "and this one has not)",
          StoredKeyOfId(id), rank, DTypeName(dtype)));
    }
    group.ids = reinterpret_cast<const std::byte*>(rest.data());
    group.rows = group.ids + group.count * 8;
    const int64_t bytes =
        group.count * (8 + (has_rows ? RowBytes(group.block->shard) : 0));
    rest.remove_prefix(static_cast<size_t>(bytes));
    BELAY_RETURN_IF_ERROR(visit(group));
  }
  return absl::OkStatus();
}

// What is wrong with a block in which ids came twice, or not at all.
Status MissingError(const IdBlock& block, const std::vector<int32_t>& from) {
  int64_t missing = 0, first = 0;
  for (int64_t i = block.count; i-- > 0;) {
    if (from[static_cast<size_t>(i)] != kNobody) continue;
    ++missing;
    first = block.first + i;
  }
  if (missing == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat(
      "save \"%s\": no rank has id %d; %d of the ids %d to %d are missing",
      block.shard.key, first, missing, block.first,
      block.first + block.count - 1));
}

Status TwiceError(const IdBlock& block, int64_t id, int32_t first,
                  int32_t second) {
  return absl::InvalidArgumentError(absl::StrFormat(
      "save \"%s\": id %d is there twice (rank %d has it, and rank %d)",
      block.shard.key, id, first, second));
}

// Puts the rows of a group, which a rank has sent, into their block.
Status PutRows(const Group& group, int32_t rank, std::byte* rows,
               std::vector<int32_t>& from) {
  const IdBlock& block = *group.block;
  const int64_t bytes = RowBytes(block.shard);
  Status status;
  WithCopier(bytes, [&](auto copy) {
    for (int64_t i = 0; i < group.count; ++i) {
      const int64_t place = group.id(i) - block.first;
      int32_t& sender = from[static_cast<size_t>(place)];
      if (sender != kNobody) {
        status = TwiceError(block, group.id(i), sender, rank);
        return;
      }
      sender = rank;
      copy(group.rows + i * bytes, rows + place * bytes);
    }
  });
  return status;
}

// Gives the program's ranges as many rows as they have ids, and finds them.
Status GiveLengthsOfIds(std::vector<IdBlock>& blocks,
                        std::vector<FormerElements>& former) {
  std::vector<Shard> shards;
  for (IdBlock& block : blocks) {
    Shard& shard = shards.emplace_back(block.shard);
    BELAY_ASSIGN_OR_RETURN(shard, FindElements(std::move(shard)));
    const int64_t count = std::ssize(block.ids);
    if (shard.global_shape[0] == count) continue;
    if (shard.access == nullptr || shard.access->resize == nullptr) {
      return absl::FailedPreconditionError(absl::StrFormat(
          "restore \"%s\": there are other ids than rows, and the range keeps "
          "its length (%d ids, %d rows)",
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

// Rows that are ids of others would have to come first.
Status CheckSameIds(const IdBlock& block) {
  const RankRows& rows = *block.shard.rows;
  bool is_same = rows.num_ids() == block.ids.size();
  for (size_t i = 0; is_same && i < block.ids.size(); ++i) {
    is_same = rows.id(i) == block.ids[i];
  }
  if (is_same) return absl::OkStatus();
  return absl::InvalidArgumentError(Cat(
      "restore \"", block.shard.key, "\": its ids are rows with ids of the ",
      "same restore; restore them before it"));
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
      "%s \"%s\": all ranks together have another number of rows than "
      "IdOptions::count says (need %d, found %d)",
      AbslView(operation), AbslView(key), count, found));
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
  BELAY_RETURN_IF_ERROR(WithMemory(
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

StatusOr<std::vector<std::string>> PackById(const std::vector<IdBlock>& blocks,
                                            int num_ranks) {
  std::vector<std::string> to(static_cast<size_t>(num_ranks));
  for (const IdBlock& block : blocks) {
    BELAY_ASSIGN_OR_RETURN(const std::vector<int64_t> ids,
                           IdsOf(block, "save"));
    if (std::ssize(ids) != block.shard.global_shape[0]) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "save \"%s\": there are other ids than rows (%d ids, %d rows)",
          block.shard.key, ids.size(), block.shard.global_shape[0]));
    }
    const std::vector<int32_t> ranks = HoldersOf(block, ids, num_ranks);
    const std::vector<int64_t> counts = CountByRank(ranks, num_ranks);
    const int64_t bytes = RowBytes(block.shard);
    const int64_t in_memory = RowBytesInMemory(block.shard);
    std::vector<char*> next_id(to.size()), next_row(to.size());
    for (size_t rank = 0; rank < to.size(); ++rank) {
      if (counts[rank] == 0) continue;
      next_id[rank] = Extend(block.shard, counts[rank],
                             counts[rank] * (8 + bytes), to[rank]);
      next_row[rank] = next_id[rank] + counts[rank] * 8;
    }
    const auto* row = static_cast<const char*>(block.shard.data);
    WithProgramCopier(block.shard, true, [&](auto pack) {
      for (size_t i = 0; i < ids.size(); ++i, row += in_memory) {
        const auto rank = static_cast<size_t>(ranks[i]);
        std::memcpy(next_id[rank], &ids[i], sizeof(ids[i]));
        pack(row, next_row[rank]);
        next_id[rank] += sizeof(ids[i]);
        next_row[rank] += bytes;
      }
    });
  }
  return to;
}

Status FillBlocks(const std::vector<std::span<std::byte>>& from,
                  std::vector<IdBlock>& blocks) {
  std::vector<std::vector<int32_t>> senders;
  for (const IdBlock& block : blocks) {
    senders.emplace_back(static_cast<size_t>(block.count),
                         static_cast<int32_t>(kNobody));
  }
  for (size_t rank = 0; rank < from.size(); ++rank) {
    BELAY_RETURN_IF_ERROR(
        ForEachGroup(from[rank], rank, blocks, true, [&](const Group& group) {
          const auto number = static_cast<size_t>(group.block - blocks.data());
          return PutRows(group, static_cast<int32_t>(rank),
                         blocks[number].rows.get(), senders[number]);
        }));
  }
  for (size_t i = 0; i < blocks.size(); ++i) {
    BELAY_RETURN_IF_ERROR(MissingError(blocks[i], senders[i]));
  }
  return absl::OkStatus();
}

StatusOr<std::vector<std::string>> RequestRows(
    int num_ranks, std::vector<IdBlock>& blocks,
    std::vector<FormerElements>& former) {
  std::vector<std::string> to(static_cast<size_t>(num_ranks));
  for (IdBlock& block : blocks) {
    BELAY_ASSIGN_OR_RETURN(block.ids, IdsOf(block, "restore"));
  }
  BELAY_RETURN_IF_ERROR(GiveLengthsOfIds(blocks, former));
  for (IdBlock& block : blocks) {
    block.ranks = HoldersOf(block, block.ids, num_ranks);
    const std::vector<int64_t> counts = CountByRank(block.ranks, num_ranks);
    std::vector<char*> next(to.size());
    for (size_t rank = 0; rank < to.size(); ++rank) {
      if (counts[rank] == 0) continue;
      next[rank] =
          Extend(block.shard, counts[rank], counts[rank] * 8, to[rank]);
    }
    for (size_t i = 0; i < block.ids.size(); ++i) {
      char*& at = next[static_cast<size_t>(block.ranks[i])];
      std::memcpy(at, &block.ids[i], sizeof(block.ids[i]));
      at += sizeof(block.ids[i]);
    }
  }
  return to;
}

int64_t CountIds(const std::vector<IdBlock>& blocks) {
  int64_t count = 0;
  for (const IdBlock& block : blocks) count += std::ssize(block.ids);
  return count;
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

StatusOr<std::vector<std::string>> AnswerRequests(
    const std::vector<std::span<std::byte>>& requests,
    const std::vector<IdBlock>& blocks) {
  std::vector<std::string> answers;
  for (size_t rank = 0; rank < requests.size(); ++rank) {
    std::string& answer = answers.emplace_back();
    const auto add = [&](const Group& group) {
      const int64_t bytes = RowBytes(group.block->shard);
      const size_t begin = answer.size();
      answer.resize(begin + static_cast<size_t>(group.count * bytes));
      char* next = answer.data() + begin;
      WithCopier(bytes, [&](auto copy) {
        for (int64_t i = 0; i < group.count; ++i, next += bytes) {
          const int64_t place = group.id(i) - group.block->first;
          copy(group.block->rows.get() + place * bytes, next);
        }
      });
      return absl::OkStatus();
    };
    const Status status =
        ForEachGroup(requests[rank], rank, blocks, false, add);
    if (!status.ok()) {
      return Status(status.code(), Cat("restore ", status.message()));
    }
  }
  return answers;
}

Status TakeAnswers(const std::vector<std::span<std::byte>>& answers,
                   std::vector<IdBlock>& blocks) {
  std::vector<const std::byte*> next;
  for (const std::span<std::byte> answer : answers) {
    next.push_back(answer.data());
  }
  for (IdBlock& block : blocks) {
    const int64_t bytes = RowBytes(block.shard);
    const int64_t in_memory = RowBytesInMemory(block.shard);
    auto* row = static_cast<char*>(block.shard.data);
    WithProgramCopier(block.shard, false, [&](auto unpack) {
      for (const int32_t rank : block.ranks) {
        const std::byte*& from = next[static_cast<size_t>(rank)];
        unpack(from, row);
        from += bytes;
        row += in_memory;
      }
    });
  }
  for (const IdBlock& block : blocks) {
    BELAY_RETURN_IF_ERROR(CheckSameIds(block));
  }
  return absl::OkStatus();
}

}  // namespace belay
