// Updating rows, and combining them.

#ifndef BELAY_SHARDED_VARIABLE_UPDATE_H_
#define BELAY_SHARDED_VARIABLE_UPDATE_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "belay/arrays/dtype.h"
#include "belay/status.h"
#include "belay/variable/update_op.h"

namespace belay {

// Checks that UpdateCheckedElements can apply these deltas.
// Errors: Unimplemented - the op is not defined for the dtype; InvalidArgument
//   - an integer division by zero, with the number of the first such delta.
Status CheckUpdate(UpdateOp op, DType dtype, const std::byte* delta,
                   int64_t count);

// Applies the op to `count` elements of `target` and `delta`. These must not
// overlap, and need only the alignment of an element. Requires that CheckUpdate
// accepted the deltas.
void UpdateCheckedElements(UpdateOp op, DType dtype, std::byte* target,
                           const std::byte* delta, int64_t count);

// Returns true for f16, bf16, f32 and f64, which the functions below require.
bool IsRealFloat(DType dtype);

// Returns the factor that reduces a row's L2 norm to `max_norm`, or 1 if the
// norm is not larger.
double ClipFactor(DType dtype, const std::byte* row, int64_t row_elements,
                  double max_norm);

void ScaleRow(DType dtype, std::byte* row, int64_t row_elements, double factor);

// List i consists of rows[splits[i]] to rows[splits[i + 1] - 1], each with its
// weight. The sum of list i is divided by divisors[i].
struct RowLists {
  std::span<const int64_t> splits;  // the number of lists + 1
  std::span<const std::byte* const> rows;
  std::span<const double> weights;
  std::span<const double> divisors;
};

// Writes the weighted sum of each list, divided by its divisor, to consecutive
// rows of `result`; zeros where the divisor is 0. Sums f16 and bf16 as f32.
void CombineRows(DType dtype, int64_t row_elements, const RowLists& lists,
                 std::byte* result);

}  // namespace belay

#endif  // BELAY_SHARDED_VARIABLE_UPDATE_H_
