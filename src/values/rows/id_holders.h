// Which rank holds the row of an id: each has a block of consecutive ones.

#ifndef BELAY_VALUES_ROWS_ID_HOLDERS_H_
#define BELAY_VALUES_ROWS_ID_HOLDERS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "values/rows/id_block.h"

namespace belay {

// The number of ranks that have blocks.
int64_t NumHolders(const IdBlock& block, int num_ranks);

// In whose block each of these ids is, which are in range: the inverse of
// FirstOfEven.
std::vector<int32_t> HoldersOf(const IdBlock& block,
                               std::span<const int64_t> ids, int num_ranks);

}  // namespace belay

#endif  // BELAY_VALUES_ROWS_ID_HOLDERS_H_
