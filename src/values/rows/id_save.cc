#include "values/rows/id_save.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "belay/rows.h"
#include "bytes/huge_pages.h"
#include "values/rows/id_holders.h"
#include "values/rows/prefetch.h"
#include "values/rows/rank_rows.h"
#include "values/rows/row_copier.h"

namespace belay {
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

}  // namespace belay
