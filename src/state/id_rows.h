// Rows with ids: how they travel to the rank that writes or wants them.

#ifndef BELAY_STATE_ID_ROWS_H_
#define BELAY_STATE_ID_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "belay/arrays/shard.h"
#include "belay/status.h"
#include "core/wire.h"
#include "state/array_access.h"
#include "state/row_counts.h"

namespace belay {

// Rows that have numbers over all ranks: each rank has some, in any order, and
// writes or reads a block of consecutive ones. They travel in windows of what
// the program has, which a cache holds while they are put in order.

// Whether the shard is rows with ids.
bool HasIds(const Shard& shard);

inline constexpr int32_t kNoSender = -1;

// The ids of one array that a rank writes or reads, and those that the program
// has on it.
struct IdBlock {
  Shard shard;        // the program's rows
  int64_t total = 0;  // of all ranks
  // The ranks that have blocks, ascending; empty: all.
  std::vector<int32_t> holders = {};
  int64_t first = 0;
  int64_t count = 0;
  std::unique_ptr<std::byte[]> rows = nullptr;
  // The rank that has sent each row, while that is noted. Not a std::vector, as
  // huge pages have to be under both.
  std::unique_ptr<std::byte[]> sender_memory = nullptr;
  std::span<int32_t> senders = {};
  int64_t num_ids = 0;  // of the program's, once it is asked
};

// Errors: InvalidArgument - the ids of all ranks are another number of rows
//   than the program has said, -1 for any; names the key.
Status CheckCount(std::string_view operation, std::string_view key,
                  int64_t count, int64_t found);

// Lets a block be that of a rank, and gives it memory. Returns the shard of
// that memory, which takes the place of the program's.
// Errors: ResourceExhausted - names the key.
StatusOr<Shard> TakeBlock(int rank, int num_ranks, IdBlock& block);

// The blocks of each key, as of RowsId: there may be some of several forms.
using BlocksByKey = std::map<std::string, std::vector<size_t>, std::less<>>;
BlocksByKey IndexBlocks(const std::vector<IdBlock>& blocks);

// The block of the rows of a group that another rank has sent, among ours.
// Errors: FailedPrecondition - there is none, or its rows are of another form;
//   names the key and the rank.
StatusOr<size_t> FindBlock(const std::vector<IdBlock>& blocks,
                           const BlocksByKey& by_key, const RowGroup& group,
                           size_t rank);

// Consecutive rows of the program's.
struct IdSlice {
  size_t block = 0;
  int64_t begin = 0;
  int64_t end = 0;
};

// What a rank sends or asks for at once.
using IdWindow = std::vector<IdSlice>;

// All rows of the program's on this rank that have ids.
std::vector<IdWindow> CutWindows(const std::vector<IdBlock>& blocks,
                                 int num_ranks);

// Counts the ids of the program's.
// Errors: what asking for them threw; names the key.
Status CountIds(std::string_view operation, IdBlock& block);

// The ids of a slice, each in range.
// Errors: InvalidArgument - one is not; names the key and the id. What asking
//   for them threw; names the key.
StatusOr<std::vector<int64_t>> IdsOf(std::string_view operation,
                                     const IdBlock& block,
                                     const IdSlice& slice);

// Which rank holds the row of an id: each has a block of consecutive ones.

// The number of ranks that have blocks.
int64_t NumHolders(const IdBlock& block, int num_ranks);

// In whose block each of these ids is, which are in range: the inverse of
// FirstOfEven.
std::vector<int32_t> HoldersOf(const IdBlock& block,
                               std::span<const int64_t> ids, int num_ranks);

// Saves of rows with ids: what each rank sends to those that write them.
//
//   TakeIds, NoteNoSender; for each window: PackWindow -> exchange ->
//   FillBlocks; then CheckFilled

// Counts the ids of the program's, and makes room for the senders of rows.
// Errors: InvalidArgument - there are other rows than ids; those of CountIds.
Status TakeIds(IdBlock& block);
void NoteNoSender(IdBlock& block);

// Puts the rows of a window into what the ranks get that write them.
// Errors: those of IdsOf.
Status PackWindow(const std::vector<IdBlock>& blocks, const IdWindow& window,
                  Messages& to);

// Puts what all ranks have packed for this one into its blocks.
// Errors: InvalidArgument - an id is there twice; names the key, the id and the
//   ranks; those of FindBlock.
Status FillBlocks(const std::vector<std::span<std::byte>>& from,
                  const BlocksByKey& by_key, std::vector<IdBlock>& blocks);

// A key of which the program has an id that is out of range, or none, and its
// ids of such a key, ascending: for who looks for one that is missing.
std::string KeyOutOfRange(const std::vector<IdBlock>& blocks);
struct SortedIds {
  std::vector<int64_t> ids;
  int64_t total = 0;  // as of IdBlock
};
SortedIds SortIds(const std::vector<IdBlock>& blocks, std::string_view key);

// Errors: InvalidArgument - no rank has sent an id; names the key and the id.
Status CheckFilled(const std::vector<IdBlock>& blocks);

// Restores of rows with ids: what each rank asks of those that have read them.
//
//   AskForIds; for each window: RequestRows -> exchange -> AnswerRequests
//   -> exchange -> TakeAnswers; then CheckSameIds

// The ids that the program wants of each block, as it may change its own.
using WantedIds = std::vector<std::vector<int64_t>>;

// Asks the program for its ids, and gives its ranges as many rows. `former` is
// memory that containers have given up, to which that of these ranges is added.
// Errors: those of IdsOf; FailedPrecondition - there is no room for the rows,
//   or ranges of two keys are one; ResourceExhausted. All name the key.
StatusOr<WantedIds> AskForIds(std::vector<IdBlock>& blocks,
                              std::vector<FormerElements>& former);

// Errors: FailedPrecondition - there are rows, of which no rank wants any;
//   names the key.
Status CheckNothingIsThere(const std::vector<IdBlock>& blocks);

// Which rank has read each row of a window, in order.
using RowRanksOfWindow = std::vector<int32_t>;

// Puts the ids of a window into what the ranks get that have read their rows.
RowRanksOfWindow RequestRows(const std::vector<IdBlock>& blocks,
                             const WantedIds& wanted, const IdWindow& window,
                             Messages& to);

// Puts the rows that each rank has requested into what it gets.
// Errors: those of FindBlock.
Status AnswerRequests(const std::vector<std::span<std::byte>>& requests,
                      const BlocksByKey& by_key,
                      const std::vector<IdBlock>& blocks, Messages& to);

// Puts the rows of a window that were requested where the program has them.
void TakeAnswers(const std::vector<std::span<std::byte>>& answers,
                 const IdWindow& window, const RowRanksOfWindow& ranks,
                 std::vector<IdBlock>& blocks);

// Errors: InvalidArgument - these rows are ids themselves, of others.
Status CheckSameIds(const std::vector<IdBlock>& blocks,
                    const WantedIds& wanted);

}  // namespace belay

#endif  // BELAY_STATE_ID_ROWS_H_
