// Rows, of which each rank holds any number. A save numbers them across all
// ranks; a restore determines which stored rows each rank gets.

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

// Returns the shape of the rows that `elements` numbers form.
// Errors: InvalidArgument - `elements` is not a whole number of rows, or the
//   fields of the structs are wrong.
StatusOr<Shape> RowsShape(const Shard& shard, int64_t elements);

// Makes a restore read the shard from `stored_key`. Messages still name the
// program's key.
void TakeKey(const std::string& stored_key, Shard& shard);

// Returns an id of the rows for a restore: their stored key, followed by the
// program's key if that differs.
std::string RowsId(const Shard& shard);
std::string GetStoredKey(std::string_view id);

// Messages consist of groups. A group has rows of one key, their ids, or both.

enum class RowParts : uint8_t { kRows, kIds, kIdsAndRows };

struct RowGroupRoom {
  std::byte* ids = nullptr;
  std::byte* rows = nullptr;
};

// Appends a group for a shard's rows to the message of each rank that gets any.
// `ranks` is the destination rank of each row. Returns, per rank, where to
// write the group; valid until the next call.
std::vector<RowGroupRoom> AppendRowGroups(const Shard& shard,
                                          const std::vector<int32_t>& ranks,
                                          RowParts parts, Messages& to);

// A group in a message. Points into the message.
struct RowGroup {
  std::string_view key;  // from RowsId
  DType dtype = DType::kU8;
  int64_t row_bytes = 0;
  std::string_view fields;  // of the structs
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
// The header of a group, which precedes the ids and the rows.
template <typename Archive>
void Fields(Archive& archive, RowGroup& group) {
  archive(group.key, group.dtype, group.row_bytes, group.fields, group.count,
          group.parts);
}

// Removes the first group from a message. Requires that it is not empty.
RowGroup TakeRowGroup(std::span<std::byte>& message);

bool HasSameForm(const RowGroup& group, const Shard& shard);

// Saving rows: each rank's rows follow those of the previous rank.
//
//   EncodeRowCounts of each rank -> MergeRowCounts on rank 0 -> PlaceShards

struct KeyRows {
  std::string key;
  RowRanks ranks;
};

// Returns the rows of the keys that are in `arrays`, ordered by array.
std::vector<StoredRows> FindStoredRows(const std::vector<KeyRows>& keys,
                                       const std::vector<StoredArray>& arrays);
std::vector<KeyRows> ListKeyRows(const SavedCheckpoint& saved);

std::string EncodeRowCounts(const std::vector<Shard>& shards);

struct MergedRows {
  std::vector<KeyRows> keys;       // ascending; without keys of rows with ids
  std::string common;              // for DecodePlacements on every rank
  std::vector<std::string> parts;  // the same, per rank
};

// Errors: InvalidArgument - the ranks' rows differ in form, or a rank has a key
//   twice.
StatusOr<MergedRows> MergeRowCounts(const std::vector<std::string>& gathered);

// The position of a local shard's rows among the rows of all ranks.
struct RowPlacement {
  int32_t shard = 0;
  int64_t first = 0;
  int64_t total = 0;
  bool has_ids = false;
  int32_t holder_list = -1;           // index of the list; -1: all ranks
  std::vector<int32_t> holders = {};  // for rows with ids; as in IdBlock
};
// Archives all members except `holders`.
template <typename Archive>
void Fields(Archive& archive, RowPlacement& one) {
  archive(one.shard, one.first, one.total, one.has_ids, one.holder_list);
}
struct RowPlacements {
  std::vector<RowPlacement> shards;  // of this rank
  bool any_ids = false;              // true if any rank has rows with ids
};
RowPlacements DecodePlacements(std::string_view common, std::string_view part);

// Sets the global shapes and the offsets of the shards without ids.
void PlaceShards(const std::vector<RowPlacement>& placements,
                 std::vector<Shard>& shards);

// Rows with ids. The id of a row is its position in the stored array. A rank
// may have rows with any ids, in any order, but it writes or reads a block of
// rows with consecutive ids. The ranks exchange the rows in windows that fit
// into a cache.

inline constexpr int32_t kNoSender = -1;

// The rows of one array on this rank: the program's rows, and the block that
// this rank writes or reads.
struct IdBlock {
  Shard shard;        // the program's rows
  int64_t total = 0;  // the number of rows on all ranks
  // The ranks that have blocks, ascending; empty: all ranks.
  std::vector<int32_t> holders = {};
  int64_t first = 0;
  int64_t count = 0;
  std::unique_ptr<std::byte[]> rows = nullptr;
  // During a save: the rank that sent each row. Like `rows`, not a std::vector,
  // because the memory should be in huge pages.
  std::unique_ptr<std::byte[]> sender_memory = nullptr;
  std::span<int32_t> senders = {};
  int64_t num_ids = 0;  // of the program's rows
};

// Allocates the block of a rank. Returns a shard of that memory, which replaces
// the program's shard.
// Errors: ResourceExhausted.
StatusOr<Shard> TakeBlock(int rank, int num_ranks, IdBlock& block);

int64_t NumHolders(const IdBlock& block, int num_ranks);

// Returns, for each id, the rank whose block has it: the inverse of
// FirstOfEven. Requires ids that are in range.
std::vector<int32_t> FindHolders(const IdBlock& block,
                                 std::span<const int64_t> ids, int num_ranks);

// The indices of blocks, by RowsId. One key may have blocks of several forms.
using BlocksByKey = std::map<std::string, std::vector<size_t>, std::less<>>;
BlocksByKey IndexBlocks(const std::vector<IdBlock>& blocks);

// Consecutive rows in the program's order.
struct IdSlice {
  size_t block = 0;
  int64_t begin = 0;
  int64_t end = 0;
};

// The rows that a rank sends or requests in one exchange.
using IdWindow = std::vector<IdSlice>;

std::vector<IdWindow> CutWindows(const std::vector<IdBlock>& blocks,
                                 int num_ranks);

// Saving rows with ids.
//
//   TakeIds, NoteNoSender; for each window: PackWindow -> exchange ->
//   FillBlocks; then CheckFilled

// Counts the program's ids.
// Errors: InvalidArgument - the numbers of rows and ids differ; what counting
//   threw.
Status TakeIds(IdBlock& block);
void NoteNoSender(IdBlock& block);

// Packs the rows of a window for the ranks that write them.
// Errors: InvalidArgument - an id is out of range; what the program's function
//   for ids threw.
Status PackWindow(const std::vector<IdBlock>& blocks, const IdWindow& window,
                  Messages& to);

// Unpacks the rows that all ranks have sent into the blocks.
// Errors: InvalidArgument - an id appears twice; FailedPrecondition - there is
//   no block of that key and form.
Status FillBlocks(const std::vector<std::span<std::byte>>& from,
                  const BlocksByKey& by_key, std::vector<IdBlock>& blocks);

// Checks that every row of the blocks was sent.
// Errors: InvalidArgument - no rank has sent some id.
Status CheckFilled(const std::vector<IdBlock>& blocks);

// These find out why ids are wrong. KeyOutOfRange returns a key with an id that
// is out of range, or "". SortIds returns the ids of a key, ascending.
std::string KeyOutOfRange(const std::vector<IdBlock>& blocks);
struct SortedIds {
  std::vector<int64_t> ids;
  int64_t total = 0;  // as in IdBlock
};
SortedIds SortIds(const std::vector<IdBlock>& blocks, std::string_view key);

// Restoring rows with ids.
//
//   AskForIds; for each window: RequestRows -> exchange -> AnswerRequests
//   -> exchange -> TakeAnswers; then CheckSameIds

// The ids that the program wants, per block. This is a copy, because the
// program may change its own ids.
using WantedIds = std::vector<std::vector<int64_t>>;

// Asks the program for its ids, and resizes its ranges to one row per id. Adds
// the memory that containers release to `former`.
// Errors: those of PackWindow; FailedPrecondition - there is no room for the
//   rows, or two keys have the same range; ResourceExhausted.
StatusOr<WantedIds> AskForIds(std::vector<IdBlock>& blocks,
                              std::vector<FormerElements>& former);

// Errors: FailedPrecondition - rows are stored, but no rank wants any.
Status CheckNothingIsThere(const std::vector<IdBlock>& blocks);

// For each row of a window, in order, the rank that has read it.
using RowRanksOfWindow = std::vector<int32_t>;

// Packs the ids of a window for the ranks that have read their rows.
RowRanksOfWindow RequestRows(const std::vector<IdBlock>& blocks,
                             const WantedIds& wanted, const IdWindow& window,
                             Messages& to);

// Packs the rows that each rank has requested.
// Errors: those of FillBlocks.
Status AnswerRequests(const std::vector<std::span<std::byte>>& requests,
                      const BlocksByKey& by_key,
                      const std::vector<IdBlock>& blocks, Messages& to);

// Unpacks the requested rows of a window into the program's memory.
void TakeAnswers(const std::vector<std::span<std::byte>>& answers,
                 const IdWindow& window, const RowRanksOfWindow& ranks,
                 std::vector<IdBlock>& blocks);

// Checks that the restore has not changed the program's ids.
// Errors: InvalidArgument - the ids were among the restored rows.
Status CheckSameIds(const std::vector<IdBlock>& blocks,
                    const WantedIds& wanted);

// Restoring all kinds of rows.

// The stored rows of a key.
struct FoundRows {
  std::string id;
  DType dtype = DType::kU8;
  Shape shape;
  std::string fields = {};  // of the structs
  RowRanks ranks;           // `ranks` 0: they were not saved as rows of ranks
  // The ranks that restore the rows, ascending; empty: all ranks.
  std::vector<int32_t> restorers = {};
};
template <typename Archive>
void Fields(Archive& archive, FoundRows& found) {
  archive(found.id, found.dtype, found.shape, found.fields, found.ranks.ranks,
          found.ranks.count, found.ranks.first, found.restorers);
}

// Turns each shard of rows into the part of the stored rows that this rank
// gets, resizes it, and adds the memory that it releases to `former`. `found`
// is ascending by id. Rows with an owner are first read in even parts. Rows
// with ids are first read in blocks, which are added to `blocks`.
// Errors: FailedPrecondition - the number of ranks differs from that of the
//   save, and the rule makes this an error, or a shard of fixed length has the
//   wrong length; InvalidArgument - a user function does not return a valid
//   rank; what it threw; ResourceExhausted.
Status PlaceRows(const std::vector<FoundRows>& found, int rank, int num_ranks,
                 std::vector<Shard>& shards,
                 std::vector<FormerElements>& former,
                 std::vector<IdBlock>& blocks);

// Packs the rows of all keys for their owners.
// Errors: InvalidArgument - the user function does not return a valid rank, or
//   a key appears twice; what the function threw.
Status PackByOwner(const std::vector<Shard>& shards, Messages& to);

// Unpacks into the shards the rows that all ranks have packed for this rank, in
// rank order.
// Errors: FailedPrecondition - this rank does not have the key of the rows, has
//   no room for them, or has another type; ResourceExhausted.
Status TakeOwned(const std::vector<std::span<std::byte>>& from,
                 std::vector<Shard>& shards);

}  // namespace belay

#endif  // BELAY_STATE_RANK_ROWS_H_
