// Which values a restore converts, decided by rank 0 for all ranks.

#ifndef BELAY_STATE_CONVERSIONS_H_
#define BELAY_STATE_CONVERSIONS_H_

#include <vector>

#include "belay/arrays/shard.h"
#include "belay/options.h"
#include "belay/status.h"
#include "core/wire.h"
#include "plan/plan.h"
#include "plan/stored_values.h"

namespace belay {

// Replaces what ranks want by what is stored, as far as that is tolerated for
// any value and it converts; the planner refuses the rest. Returns what
// differed, each once, ascending.
// Errors: InvalidArgument, OutOfRange - a box outside its array.
StatusOr<std::vector<Conversion>> WantAsStored(const SavedCheckpoint& saved,
                                               Tolerance most,
                                               std::vector<RankShards>& wanted);

// Returns the form in which each of these shards is stored; none at all where
// nothing is converted. `tolerances`, by shard, may be empty: then all is
// tolerated.
// Errors: FailedPrecondition - values that do not convert, or should not.
StatusOr<std::vector<StoredForm>> FormsOf(
    const std::vector<Shard>& shards, const std::vector<Tolerance>& tolerances,
    const std::vector<Conversion>& conversions);

template <typename Archive>
void Fields(Archive& archive, Conversion& one) {
  archive(one.key, one.dtype, one.shape, one.stored_dtype, one.stored_shape);
}

}  // namespace belay

#endif  // BELAY_STATE_CONVERSIONS_H_
