// What a rank tells rank 0 of its shards: bytes that are the same on all ranks
// that hold the same arrays in the same way.
//
// In:  the shards of one rank. Out: entries, one per shard or value. Where a
//      shard lies is left out if it follows from its layout and the rank, if
//      every rank holds it all, or if its rows are divided evenly over all
//      ranks; these entries name no rank. Only pieces that are cut in some
//      other way are told with their boxes.

#ifndef BELAY_PLAN_DESCRIPTION_H_
#define BELAY_PLAN_DESCRIPTION_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "belay/arrays/layout.h"
#include "belay/status.h"
#include "core/list_exchange.h"
#include "plan/plan.h"
#include "plan/stored_values.h"

namespace belay {

// What one rank lists. With its number that says all.
struct Description {
  Entries
      shared;   // what names no rank, all values, and the job if it has a name
  Entries own;  // pieces with their boxes, and the node unless it is 0
};

Description Describe(const RankShards& mine, int rank, int num_ranks);

// How it is known where a shard lies.
enum class Place : uint8_t {
  kBox = 0,     // box and replica number are told
  kLayout = 1,  // by the layout
  kWhole = 2,   // everywhere; the replica number is that of the rank
  kRows = 3,    // by FirstOfEven; the replica number is 0
};

struct ListedShard {
  ShardInfo info;  // box and replica number only of kBox
  Place place = Place::kBox;
  std::shared_ptr<const Layout> layout;  // of kLayout
  int32_t num_ranks = 0;                 // of kRows, the first ones
};

// One list of entries, which any number of ranks have told.
struct ShardList {
  std::vector<ListedShard> shards;
  // Of own ones: how many shared ones the rank has listed before each.
  std::vector<int64_t> before;
  std::vector<ListedValue> values;
  int32_t node = 0;
  std::string job = std::string(kDefaultJob);  // of shared ones
};

// Errors: Internal - these are no entries of a description.
StatusOr<ShardList> DecodeList(const Entries& entries);

// The shard as this rank holds it, or its box alone. Require that the
// rank has listed it.
Box BoxOnRank(const ListedShard& listed, int rank);
ShardInfo OnRank(const ListedShard& listed, int rank);

}  // namespace belay

#endif  // BELAY_PLAN_DESCRIPTION_H_
