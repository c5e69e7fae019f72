// Rows that have numbers over all ranks: each rank has some, in any order, and
// writes or reads a block of consecutive ones. Pure.
//
//   save:     PackById -> exchange -> FillBlocks: what is written
//   restore:  what was read: blocks; RequestRows -> exchange -> AnswerRequests
//             -> exchange -> TakeAnswers

#ifndef BELAY_TYPES_ID_ROWS_H_
#define BELAY_TYPES_ID_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "belay/shard.h"
#include "belay/status.h"
#include "types/array_access.h"

namespace belay {

// Whether the shard is rows with ids.
bool HasIds(const Shard& shard);

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
  std::vector<int64_t> ids = {};    // that the program has, once they are asked
  std::vector<int32_t> ranks = {};  // that hold these
};

// Errors: InvalidArgument - the ids of all ranks are another number of rows
//   than the program has said, -1 for any; names the key.
Status CheckCount(std::string_view operation, std::string_view key,
                  int64_t count, int64_t found);

// Lets a block be that of a rank, and gives it memory. Returns the shard of
// that memory, which takes the place of the program's.
// Errors: ResourceExhausted - names the key.
StatusOr<Shard> TakeBlock(int rank, int num_ranks, IdBlock& block);

// Returns for each rank the rows that are in its blocks.
// Errors: InvalidArgument - there are other rows than ids, or an id is out of
//   range; names the key and the id.
StatusOr<std::vector<std::string>> PackById(const std::vector<IdBlock>& blocks,
                                            int num_ranks);

// Puts what all ranks have packed for this one into its blocks.
// Errors: InvalidArgument - an id is there twice or missing; names the key, the
//   ids and the ranks.
Status FillBlocks(const std::vector<std::span<std::byte>>& from,
                  std::vector<IdBlock>& blocks);

// Returns for each rank the ids whose rows this one wants of it, and gives the
// program's ranges their lengths. `former` is memory that containers have given
// up, to which that of these ranges is added.
// Errors: InvalidArgument - an id is out of range; FailedPrecondition - there
//   is no room for the rows, or ranges of two keys are one; ResourceExhausted.
//   All name the key.
StatusOr<std::vector<std::string>> RequestRows(
    int num_ranks, std::vector<IdBlock>& blocks,
    std::vector<FormerElements>& former);

// The ids that this rank has requested.
int64_t CountIds(const std::vector<IdBlock>& blocks);

// Errors: FailedPrecondition - there are rows, of which no rank wants any;
//   names the key.
Status CheckNothingIsThere(const std::vector<IdBlock>& blocks);

// Returns for each rank the rows that it has requested.
// Errors: FailedPrecondition - this rank restores no such rows.
StatusOr<std::vector<std::string>> AnswerRequests(
    const std::vector<std::span<std::byte>>& requests,
    const std::vector<IdBlock>& blocks);

// Puts the rows that were requested where the program has them.
// Errors: InvalidArgument - these rows are ids themselves, of others.
Status TakeAnswers(const std::vector<std::span<std::byte>>& answers,
                   std::vector<IdBlock>& blocks);

}  // namespace belay

#endif  // BELAY_TYPES_ID_ROWS_H_
