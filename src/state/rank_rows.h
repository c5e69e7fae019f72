// Rows of which each rank holds any number: how a save numbers them over all
// ranks, and which of the stored rows a restore gives to each rank.

#ifndef BELAY_STATE_RANK_ROWS_H_
#define BELAY_STATE_RANK_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "belay/arrays/box.h"
#include "belay/arrays/dtype.h"
#include "belay/extend/row_shards.h"
#include "belay/extend/shard.h"
#include "belay/status.h"
#include "core/wire.h"
#include "plan/plan.h"
#include "plan/stored_objects.h"
#include "state/array_access.h"

namespace belay {

bool HasRows(const std::vector<Shard>& shards);
bool HasOwners(const std::vector<Shard>& shards);
bool HasIds(const Shard& shard);

// Errors: InvalidArgument - `elements` numbers are not whole rows, or the
//   fields of structs are wrong.
StatusOr<Shape> RowsShape(const Shard& shard, int64_t elements);

// Lets a shard be restored from another key. Messages still name the program's.
void TakeKey(const std::string& stored_key, Shard& shard);

// Identifies rows in a restore: their stored key, and the program's key if it
// differs.
std::string RowsId(const Shard& shard);
std::string GetStoredKey(std::string_view id);

// Messages of rows: groups of rows of one key each, with the rows, their ids,
// or both.

enum class RowParts : uint8_t { kRows, kIds, kIdsAndRows };

struct RowGroupRoom {
  std::byte* ids = nullptr;
  std::byte* rows = nullptr;
};

// Appends a group of a shard's rows to the message of each rank that gets some.
// `ranks` has the rank of each row. The result, by rank, is valid until the
// next call.
std::vector<RowGroupRoom> AppendRowGroups(const Shard& shard,
                                          const std::vector<int32_t>& ranks,
                                          RowParts parts, Messages& to);

// A group of a message, from which it borrows.
struct RowGroup {
  std::string_view key;  // as of RowsId
  DType dtype = DType::kU8;
  int64_t row_bytes = 0;
  std::string_view fields;  // of its structs
  int64_t count = 0;
  RowParts parts = RowParts::kIdsAndRows;
  const std::byte* ids = nullptr;
  const std::byte* rows = nullptr;

  int64_t id(int64_t i) const {
    int64_t value = 0;
    std::memcpy(&value, ids + i * 8, sizeof(value));
    return value;
  }
  int64_t CountIdBytes() const {
    return parts == RowParts::kRows ? 0 : count * int64_t{sizeof(int64_t)};
  }
  int64_t CountBytes() const {
    return CountIdBytes() + (parts == RowParts::kIds ? 0 : count * row_bytes);
  }
};
// Its head, before the ids and the rows.
template <typename Archive>
void Fields(Archive& archive, RowGroup& group) {
  archive(group.key, group.dtype, group.row_bytes, group.fields, group.count,
          group.parts);
}

// Removes the first group from a message that is not empty.
RowGroup TakeRowGroup(std::span<std::byte>& message);

bool HasSameForm(const RowGroup& group, const Shard& shard);

// Saves of rows: each rank's rows follow those of the rank before.
//
//   EncodeRowCounts of each rank -> MergeRowCounts on rank 0 -> PlaceShards

struct KeyRows {
  std::string key;
  RowRanks ranks;
};

// Returns the rows of those keys that are among the arrays, by array.
std::vector<StoredRows> FindStoredRows(const std::vector<KeyRows>& keys,
                                       const std::vector<StoredArray>& arrays);
std::vector<KeyRows> ListKeyRows(const SavedCheckpoint& saved);

std::string EncodeRowCounts(const std::vector<Shard>& shards);

struct MergedRows {
  std::vector<KeyRows> keys;       // ascending; without those with ids
  std::string common;              // for DecodePlacements on every rank
  std::vector<std::string> parts;  // the same, by rank
};

// Errors: InvalidArgument - rows of the ranks differ in form, or a rank has a
//   key twice.
StatusOr<MergedRows> MergeRowCounts(const std::vector<std::string>& gathered);

// The position of the rows of a shard of this rank among those of all ranks.
struct RowPlacement {
  int32_t shard = 0;
  int64_t first = 0;
  int64_t total = 0;
  bool has_ids = false;
  int32_t holder_list = -1;           // its number in the message; -1: all
  std::vector<int32_t> holders = {};  // of rows with ids, as of IdBlock
};
// All but `holders`.
template <typename Archive>
void Fields(Archive& archive, RowPlacement& one) {
  archive(one.shard, one.first, one.total, one.has_ids, one.holder_list);
}
struct RowPlacements {
  std::vector<RowPlacement> shards;  // of this rank
  bool any_ids = false;              // of any rank
};
RowPlacements DecodePlacements(std::string_view common, std::string_view part);

// Makes shards without ids the parts of their arrays.
void PlaceShards(const std::vector<RowPlacement>& placements,
                 std::vector<Shard>& shards);

// Rows with ids, which are their positions in the stored array. Each rank has
// rows with any ids, in any order, and writes or reads a block of consecutive
// ones. Rows travel between them in windows that fit into a cache.

inline constexpr int32_t kNoSender = -1;

// The rows of one array on this rank: the program's, and the block.
struct IdBlock {
  Shard shard;        // the program's rows
  int64_t total = 0;  // of all ranks
  // The ranks that have blocks, ascending; empty: all.
  std::vector<int32_t> holders = {};
  int64_t first = 0;
  int64_t count = 0;
  std::unique_ptr<std::byte[]> rows = nullptr;
  // The rank that has sent each row, during a save. Not a std::vector, as both
  // need huge pages.
  std::unique_ptr<std::byte[]> sender_memory = nullptr;
  std::span<int32_t> senders = {};
  int64_t num_ids = 0;  // of the program's rows
};

// Allocates a rank's part of the block. Returns the shard of that memory, which
// replaces the program's. Errors: ResourceExhausted.
StatusOr<Shard> TakeBlock(int rank, int num_ranks, IdBlock& block);

int64_t NumHolders(const IdBlock& block, int num_ranks);

// Returns the rank whose block has each id: the inverse of FirstOfEven.
// Requires ids that are in range.
std::vector<int32_t> FindHolders(const IdBlock& block,
                                 std::span<const int64_t> ids, int num_ranks);

// The blocks by RowsId. One key may have blocks of several forms.
using BlocksByKey = std::map<std::string, std::vector<size_t>, std::less<>>;
BlocksByKey IndexBlocks(const std::vector<IdBlock>& blocks);

// Consecutive rows of the program.
struct IdSlice {
  size_t block = 0;
  int64_t begin = 0;
  int64_t end = 0;
};

// The rows that a rank sends or asks for at once.
using IdWindow = std::vector<IdSlice>;

std::vector<IdWindow> CutWindows(const std::vector<IdBlock>& blocks,
                                 int num_ranks);

// Saves of rows with ids.
//
//   TakeIds, NoteNoSender; for each window: PackWindow -> exchange ->
//   FillBlocks; then CheckFilled

// Counts the program's ids.
// Errors: InvalidArgument - there are not as many rows as ids; what counting
//   threw.
Status TakeIds(IdBlock& block);
void NoteNoSender(IdBlock& block);

// Packs the rows of a window for the ranks that write them.
// Errors: InvalidArgument - an id is out of range; what asking for one threw.
Status PackWindow(const std::vector<IdBlock>& blocks, const IdWindow& window,
                  Messages& to);

// Unpacks the rows that all ranks have sent into the blocks.
// Errors: InvalidArgument - an id is there twice; FailedPrecondition - there is
//   no block of that key and form.
Status FillBlocks(const std::vector<std::span<std::byte>>& from,
                  const BlocksByKey& by_key, std::vector<IdBlock>& blocks);

// Errors: InvalidArgument - no rank has sent an id.
Status CheckFilled(const std::vector<IdBlock>& blocks);

// Returns a key with an id that is out of range, or "", and the ids of such a
// key, ascending, among which one is missing.
std::string KeyOutOfRange(const std::vector<IdBlock>& blocks);
struct SortedIds {
  std::vector<int64_t> ids;
  int64_t total = 0;  // as of IdBlock
};
SortedIds SortIds(const std::vector<IdBlock>& blocks, std::string_view key);

// Restores of rows with ids.
//
//   AskForIds; for each window: RequestRows -> exchange -> AnswerRequests
//   -> exchange -> TakeAnswers; then CheckSameIds

// The ids that the program wants, by block: it may change its own.
using WantedIds = std::vector<std::vector<int64_t>>;

// Asks the program for its ids, and resizes its ranges to as many rows. Adds
// the memory that containers give up to `former`.
// Errors: those of PackWindow; FailedPrecondition - there is no room for the
//   rows, or ranges of two keys are one; ResourceExhausted.
StatusOr<WantedIds> AskForIds(std::vector<IdBlock>& blocks,
                              std::vector<FormerElements>& former);

// Errors: FailedPrecondition - rows are stored, but no rank wants any.
Status CheckNothingIsThere(const std::vector<IdBlock>& blocks);

// The rank that has read each row of a window, in order.
using RowRanksOfWindow = std::vector<int32_t>;

// Packs the ids of a window for the ranks that have read their rows.
RowRanksOfWindow RequestRows(const std::vector<IdBlock>& blocks,
                             const WantedIds& wanted, const IdWindow& window,
                             Messages& to);

// Packs the rows that each rank has requested. Errors: those of FillBlocks.
Status AnswerRequests(const std::vector<std::span<std::byte>>& requests,
                      const BlocksByKey& by_key,
                      const std::vector<IdBlock>& blocks, Messages& to);

// Unpacks the requested rows of a window into the program's memory.
void TakeAnswers(const std::vector<std::span<std::byte>>& answers,
                 const IdWindow& window, const RowRanksOfWindow& ranks,
                 std::vector<IdBlock>& blocks);

// Errors: InvalidArgument - these rows are ids themselves, of others.
Status CheckSameIds(const std::vector<IdBlock>& blocks,
                    const WantedIds& wanted);

// Restores of all rows.

// The stored rows of a key.
struct FoundRows {
  std::string id;
  DType dtype = DType::kU8;
  Shape shape;
  std::string fields = {};  // of its structs
  RowRanks ranks;           // `ranks` 0: they were not saved as rows of ranks
  // The ranks that restore it, ascending; empty: all.
  std::vector<int32_t> restorers = {};
};
template <typename Archive>
void Fields(Archive& archive, FoundRows& found) {
  archive(found.id, found.dtype, found.shape, found.fields, found.ranks.ranks,
          found.ranks.count, found.ranks.first, found.restorers);
}

// Makes shards that are rows the parts of `found`, ascending by id, that this
// rank gets, resizes them, and adds the memory that they gave up. Rows with an
// owner are first read in even parts, rows with ids in blocks, which are added
// to `blocks`.
// Errors: FailedPrecondition - another number of ranks has saved, and the rule
//   is that this is an error, or a shard of fixed length has another one;
//   InvalidArgument - a function of the program returns no rank; what it threw;
//   ResourceExhausted.
Status PlaceRows(const std::vector<FoundRows>& found, int rank, int num_ranks,
                 std::vector<Shard>& shards,
                 std::vector<FormerElements>& former,
                 std::vector<IdBlock>& blocks);

// Packs the rows of all keys for their owners.
// Errors: InvalidArgument - the function of the program returns no rank, or a
//   key is there twice; what the function threw.
Status PackByOwner(const std::vector<Shard>& shards, Messages& to);

// Gives the shards the rows that all ranks have packed for this one, in the
// order of the ranks.
// Errors: FailedPrecondition - this rank does not have their key, has no room
//   for them, or has another type; ResourceExhausted.
Status TakeOwned(const std::vector<std::span<std::byte>>& from,
                 std::vector<Shard>& shards);

}  // namespace belay

#endif  // BELAY_STATE_RANK_ROWS_H_
