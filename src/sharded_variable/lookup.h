// What the lookups have in common.

#ifndef BELAY_SHARDED_VARIABLE_LOOKUP_H_
#define BELAY_SHARDED_VARIABLE_LOOKUP_H_

#include <cstdint>
#include <vector>

#include "belay/sharded_variable.h"
#include "belay/status.h"
#include "belay/variable/sparse_ops.h"

namespace belay {

// Checks the options against the variable.
// Errors: InvalidArgument - max_norm not above 0, or not for this dtype.
Status CheckLookup(const ShardedVariable& variable,
                   const LookupOptions& options);

// Turns ids into the rows that they stand for.
// Errors: OutOfRange - names the first id that stands for no row.
Status ToRows(const ShardedVariable& variable, IdStrategy strategy,
              std::vector<int64_t>& ids);

}  // namespace belay

#endif  // BELAY_SHARDED_VARIABLE_LOOKUP_H_
