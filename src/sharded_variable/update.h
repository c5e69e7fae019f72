// The inner loop of every update: one operation on two dense runs of elements.

#ifndef BELAY_SHARDED_VARIABLE_UPDATE_H_
#define BELAY_SHARDED_VARIABLE_UPDATE_H_

#include <cstddef>
#include <cstdint>

#include "belay/arrays/dtype.h"
#include "belay/status.h"
#include "belay/variable/update_op.h"

namespace belay {

// Checks that UpdateElements will take these deltas: before anything changes.
// Errors: Unimplemented - the op is not defined for the dtype; InvalidArgument
//   - an integer division by zero, with the number of the first such delta.
Status CheckUpdate(UpdateOp op, DType dtype, const std::byte* delta,
                   int64_t count);

// Applies the op to `count` elements of `target` and of `delta`. They do not
// overlap, and may lie at any multiple of the element's alignment.
// Errors: those of CheckUpdate. Then `target` is unchanged.
Status UpdateElements(UpdateOp op, DType dtype, std::byte* target,
                      const std::byte* delta, int64_t count);

// The same without the checks, for many short runs. Requires that
// CheckUpdate took these deltas.
void UpdateCheckedElements(UpdateOp op, DType dtype, std::byte* target,
                           const std::byte* delta, int64_t count);

}  // namespace belay

#endif  // BELAY_SHARDED_VARIABLE_UPDATE_H_
