// Rows that ranks hold any number of: which of those that are stored a rank
// gets. Pure.
//
// In:  what the index says of the ranks that saved, and the shards of this
// rank. Out: the shards as parts of the arrays, with the lengths of what they
// get.

#ifndef BELAY_VALUES_ROWS_RANK_ROWS_H_
#define BELAY_VALUES_ROWS_RANK_ROWS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "belay/arrays/shard.h"
#include "belay/rows.h"
#include "belay/status.h"
#include "bytes/wire.h"
#include "plan/stored/stored_rows.h"
#include "values/array_access.h"
#include "values/rows/id_block.h"

namespace belay {

// The shape of so many numbers as rows of a shard.
// Errors: InvalidArgument - they are no whole rows, or something is wrong with
//   the fields of structs; names the key.
StatusOr<Shape> RowsShape(const Shard& shard, int64_t elements);

// Whether rows that are restored are new ones, so that members that are not
// stored are nobody else's.
bool HasNewRows(const Shard& shard);

// Gives a shard that has its own memory this number of rows.
Status ResizeRows(int64_t count, Shard& shard);

// The bytes of one row as it is stored, and where the program has it.
int64_t RowBytes(const Shard& shard);
int64_t RowBytesInMemory(const Shard& shard);

// Lets a shard be restored from another key. What ranks send each other of rows
// still goes by the program's.
void TakeKey(const std::string& stored_key, Shard& shard);

// What rows are known by in a restore: their stored key, and that of the
// program if it is another one.
std::string RowsId(const Shard& shard);
std::string StoredKeyOfId(std::string_view id);

// Whether any shard is rows.
bool HasRows(const std::vector<Shard>& shards);

// What is stored of rows, and what is said of its ranks, if anything.
struct FoundRows {
  std::string id;
  DType dtype = DType::kU8;
  Shape shape;
  std::string fields = {};  // of its structs
  RowRanks ranks;           // of no ranks: nothing is said
  // The ranks that restore it, ascending; empty: all.
  std::vector<int32_t> restorers = {};
};
void PutFoundRows(const FoundRows& found, WireWriter& out);
FoundRows GetFoundRows(WireReader& in);

// Lets shards that are rows be the parts of `found`, ascending by id, that
// this rank gets, and gives them their lengths; adds the memory that they gave
// up. Those with an owner get an even part. Those with ids become what is read
// for all ranks, a block of `blocks`.
// Errors: FailedPrecondition - another number of ranks has saved, and the rule
//   is that this is an error, or a shard has another length and keeps it;
//   InvalidArgument - a function of the program names no rank; what it threw;
//   ResourceExhausted. All name the key.
Status PlaceRows(const std::vector<FoundRows>& found, int rank, int num_ranks,
                 std::vector<Shard>& shards,
                 std::vector<FormerElements>& former,
                 std::vector<IdBlock>& blocks);

}  // namespace belay

#endif  // BELAY_VALUES_ROWS_RANK_ROWS_H_
