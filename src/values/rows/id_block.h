// Rows that have numbers over all ranks: each rank has some, in any order, and
// writes or reads a block of consecutive ones. They travel in windows of what
// the program has, which a cache holds while they are put in order. Pure.

#ifndef BELAY_VALUES_ROWS_ID_BLOCK_H_
#define BELAY_VALUES_ROWS_ID_BLOCK_H_

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
#include "values/rows/row_message.h"

namespace belay {

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

}  // namespace belay

#endif  // BELAY_VALUES_ROWS_ID_BLOCK_H_
