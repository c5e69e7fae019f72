#include "types/id_block.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/ceil_divide.h"
#include "base/huge_pages.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "base/with_memory.h"
#include "belay/rows.h"
#include "model/stored_rows.h"
#include "types/id_holders.h"
#include "types/rank_rows.h"
#include "types/struct_layout.h"

namespace belay {
namespace {

// What a rank sends at once: a cache holds it, and what it gets, while that to
// one other rank is still long enough for a network.
constexpr int64_t kWindowBytes = int64_t{8} << 20;
constexpr int64_t kBytesPerRank = int64_t{64} << 10;

void TakeMemory(int64_t bytes, NoteSenders note, IdBlock& block) {
  if (note == NoteSenders::kNo) {
    block.rows = NewBytes(std::max<int64_t>(1, bytes));
    return;
  }
  constexpr int64_t kSize = sizeof(int32_t);
  const int64_t begin = CeilDivide(bytes, kSize) * kSize;
  block.rows = NewBytes(begin + block.count * kSize);
  const auto count = static_cast<size_t>(block.count);
  block.senders = {new (block.rows.get() + begin) int32_t[count], count};
  std::fill(block.senders.begin(), block.senders.end(), kNoSender);
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

StatusOr<Shard> TakeBlock(int rank, int num_ranks, NoteSenders note,
                          IdBlock& block) {
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
        TakeMemory(bytes, note, block);
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

StatusOr<size_t> FindBlock(const std::vector<IdBlock>& blocks,
                           const RowGroup& group, size_t rank, size_t first) {
  for (size_t n = 0; n < blocks.size(); ++n) {
    const size_t i = (first + n) % blocks.size();
    const Shard& shard = blocks[i].shard;
    if (RowsId(shard) == group.key && HasFormOf(group, shard)) return i;
  }
  return absl::FailedPreconditionError(absl::StrFormat(
      "\"%s\": ranks have rows of other forms (rank %d has %s with ids, and "
      "this one has not)",
      StoredKeyOfId(group.key), rank, DTypeName(group.dtype)));
}

std::vector<IdWindow> CutWindows(const std::vector<IdBlock>& blocks,
                                 int num_ranks) {
  const int64_t window = std::max(kWindowBytes, kBytesPerRank * num_ranks);
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
  for (size_t i = 0; i < ids.size(); ++i) {
    const size_t place = static_cast<size_t>(slice.begin) + i;
    ids[i] = rows.id(place);
    if (ids[i] >= 0 && ids[i] < block.total) continue;
    return absl::InvalidArgumentError(
        absl::StrFormat("%s \"%s\": id %d, which stands at %d, is out of range "
                        "(need 0 to %d); all ranks together have %d rows: an "
                        "id may be missing, or they begin at 1",
                        AbslView(operation), block.shard.key, ids[i], place,
                        block.total - 1, block.total));
  }
  return ids;
}

}  // namespace belay
