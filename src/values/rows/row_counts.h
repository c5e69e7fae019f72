// Rows that ranks hold any number of: where those of each rank stand among
// those of all when they are saved. Pure.
//
//   EncodeRowCounts of each rank -> MergeRowCounts on rank 0 -> PlaceShards

#ifndef BELAY_VALUES_ROWS_ROW_COUNTS_H_
#define BELAY_VALUES_ROWS_ROW_COUNTS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "belay/arrays/shard.h"
#include "belay/status.h"
#include "plan/plan.h"
#include "plan/stored/stored_rows.h"

namespace belay {

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
  std::vector<KeyRows> keys;       // ascending; without those with ids
  std::string common;              // for DecodePlacements on every rank
  std::vector<std::string> parts;  // the same, by rank
};

// Errors: InvalidArgument - ranks have rows of other forms, or one of them has
//   a key twice; names the key and the ranks.
StatusOr<MergedRows> MergeRowCounts(const std::vector<std::string>& gathered);

// Where the rows of one shard of this rank stand.
struct RowPlacement {
  int32_t shard = 0;
  int64_t first = 0;
  int64_t total = 0;
  bool has_ids = false;
  std::vector<int32_t> holders = {};  // of rows with ids, as of IdBlock
};
struct RowPlacements {
  std::vector<RowPlacement> shards;  // of this rank
  bool any_ids = false;              // of any rank
};
RowPlacements DecodePlacements(std::string_view common, std::string_view part);

// Lets shards without ids be the parts of their arrays.
void PlaceShards(const std::vector<RowPlacement>& placements,
                 std::vector<Shard>& shards);

}  // namespace belay

#endif  // BELAY_VALUES_ROWS_ROW_COUNTS_H_
