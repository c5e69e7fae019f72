// How many rows ranks have, and messages of rows.

#ifndef BELAY_STATE_ROW_COUNTS_H_
#define BELAY_STATE_ROW_COUNTS_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "belay/arrays/dtype.h"
#include "belay/arrays/shard.h"
#include "belay/status.h"
#include "core/wire.h"
#include "plan/plan.h"
#include "plan/stored_objects.h"

namespace belay {

// What ranks send each other of rows: groups of one key each, with the rows,
// their ids, or both.

enum class RowParts : uint8_t { kRows, kIds, kIdsAndRows };

// Where those of a new group are to be put.
struct RowGroupRoom {
  std::byte* ids = nullptr;
  std::byte* rows = nullptr;
};

// Appends to the message of each rank a group of those rows of a shard that go
// to it. `ranks` says where each row goes. What is returned, one per rank, is
// valid until the next call.
std::vector<RowGroupRoom> AppendRowGroups(const Shard& shard,
                                          const std::vector<int32_t>& ranks,
                                          RowParts parts, Messages& to);

// One group of a message, which it borrows from.
struct RowGroup {
  std::string_view key;  // as of RowsId
  DType dtype = DType::kU8;
  int64_t row_bytes = 0;
  std::string_view fields;  // of its structs
  int64_t count = 0;
  const std::byte* ids = nullptr;
  const std::byte* rows = nullptr;

  // The id of the i-th row.
  int64_t id(int64_t i) const {
    int64_t value = 0;
    std::memcpy(&value, ids + i * 8, sizeof(value));
    return value;
  }
};

// Takes the first group off a message that is not empty.
RowGroup TakeRowGroup(std::span<std::byte>& message);

// Whether the rows of a group are of the same form as those of a shard.
bool HasFormOf(const RowGroup& group, const Shard& shard);

// Rows that ranks hold any number of: where those of each rank stand among
// those of all when they are saved.
//
//   EncodeRowCounts of each rank -> MergeRowCounts on rank 0 -> PlaceShards

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

// Lets shards without ids be the parts of their arrays.
void PlaceShards(const std::vector<RowPlacement>& placements,
                 std::vector<Shard>& shards);

}  // namespace belay

#endif  // BELAY_STATE_ROW_COUNTS_H_
