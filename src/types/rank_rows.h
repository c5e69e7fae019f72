// Rows that ranks hold any number of: where those of one rank stand among those
// of all, when they are saved and when they are restored. Pure.
//
//   save:     the counts of all ranks -> MergeRowCounts -> the place of each
//   restore:  what the index says of ranks -> PlaceRows -> which rows are read

#ifndef BELAY_TYPES_RANK_ROWS_H_
#define BELAY_TYPES_RANK_ROWS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/wire.h"
#include "belay/rows.h"
#include "belay/shard.h"
#include "belay/status.h"
#include "model/plan.h"
#include "model/stored_rows.h"
#include "types/array_access.h"

namespace belay {

// The shape of so many numbers as rows of a shard.
// Errors: InvalidArgument - they are no whole rows; names the key.
StatusOr<Shape> RowsShape(const Shard& shard, int64_t elements);

// Whether any shard is rows.
bool HasRows(const std::vector<Shard>& shards);

// How many rows of each key each rank has.
struct KeyRows {
  std::string key;
  RowRanks ranks;
};

// The same by array, for those that are among these.
std::vector<StoredRows> RowsOfArrays(const std::vector<KeyRows>& keys,
                                     const std::vector<StoredArray>& arrays);

// Those of an index, by key.
std::vector<KeyRows> RowsOfKeys(const SavedCheckpoint& saved);

// What one rank has, for MergeRowCounts.
std::string EncodeRowCounts(const std::vector<Shard>& shards);

struct MergedRows {
  std::vector<KeyRows> keys;            // ascending
  std::vector<std::string> placements;  // by rank, for PlaceShards
};

// Errors: InvalidArgument - ranks have rows of other forms, or one of them has
//   a key twice; names the key and the ranks.
StatusOr<MergedRows> MergeRowCounts(const std::vector<std::string>& gathered);

// Where the rows of one shard of this rank stand.
struct RowPlacement {
  int32_t shard = 0;
  int64_t first = 0;
  int64_t total = 0;
};
std::vector<RowPlacement> DecodePlacements(std::string_view bytes);

// Lets shards be the parts of their arrays.
void PlaceShards(const std::vector<RowPlacement>& placements,
                 std::vector<Shard>& shards);

// An array that is stored, and what is said of its ranks, if anything.
struct FoundRows {
  std::string key;
  Shape shape;
  RowRanks ranks;  // of no ranks: nothing is said
  // The ranks that restore it, ascending; empty: all.
  std::vector<int32_t> restorers;
};
void PutFoundRows(const FoundRows& found, WireWriter& out);
FoundRows GetFoundRows(WireReader& in);

// Lets shards that are rows be the parts of `found`, ascending by key, that
// this rank gets, and gives them their lengths; adds the memory that they gave
// up. Those with an owner get an even part.
// Errors: FailedPrecondition - another number of ranks has saved, and the rule
//   is that this is an error, or a shard has another length and keeps it;
//   InvalidArgument - a function of the program names no rank; what it threw;
//   ResourceExhausted. All name the key.
Status PlaceRows(const std::vector<FoundRows>& found, int rank, int num_ranks,
                 std::vector<Shard>& shards,
                 std::vector<FormerElements>& former);

}  // namespace belay

#endif  // BELAY_TYPES_RANK_ROWS_H_
