// Updates of rows, and their combination.

#ifndef BELAY_SHARDED_VARIABLE_UPDATE_H_
#define BELAY_SHARDED_VARIABLE_UPDATE_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "belay/arrays/dtype.h"
#include "belay/status.h"
#include "belay/variable/update_op.h"

namespace belay {

// The inner loop of every update: one operation on two dense runs of elements.

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

// Weighted sums of rows, and rows of a bounded length.

// Returns whether the elements are real floating numbers with arithmetic: f16,
// bf16, f32 and f64. What the functions below need.
bool IsRealFloat(DType dtype);

// Returns the factor that takes a row's L2 norm down to `max_norm`; 1 if it is
// not longer.
double ClipFactor(DType dtype, const std::byte* row, int64_t row_elements,
                  double max_norm);

// Multiplies a row.
void ScaleRow(DType dtype, std::byte* row, int64_t row_elements, double factor);

// Lists of rows: list i is rows[splits[i]] to rows[splits[i + 1] - 1], each
// with its weight, and all of it divided by divisors[i].
struct RowLists {
  std::span<const int64_t> splits;  // one more than lists
  std::span<const std::byte* const> rows;
  std::span<const double> weights;
  std::span<const double> divisors;
};

// Writes the weighted sum of each list, divided, to `result`, row after row;
// zeros where the divisor is 0. f16 and bf16 are summed as f32.
void CombineRows(DType dtype, int64_t row_elements, const RowLists& lists,
                 std::byte* result);

}  // namespace belay

#endif  // BELAY_SHARDED_VARIABLE_UPDATE_H_
