#include "values/rows/id_block.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/catch_bad_alloc.h"
#include "base/catch_exceptions.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "belay/rows.h"
#include "bytes/huge_pages.h"
#include "plan/stored/stored_rows.h"
#include "values/rows/id_holders.h"
#include "values/rows/rank_rows.h"
#include "values/struct_layout.h"

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

}  // namespace belay
