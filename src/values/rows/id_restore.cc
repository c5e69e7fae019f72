#include "values/rows/id_restore.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "belay/rows.h"
#include "values/rows/id_holders.h"
#include "values/rows/prefetch.h"
#include "values/rows/rank_rows.h"
#include "values/rows/row_copier.h"

namespace belay {
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
