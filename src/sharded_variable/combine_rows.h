// Weighted sums of rows, and rows of a bounded length.

#ifndef BELAY_SHARDED_VARIABLE_COMBINE_ROWS_H_
#define BELAY_SHARDED_VARIABLE_COMBINE_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "belay/arrays/dtype.h"

namespace belay {

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

#endif  // BELAY_SHARDED_VARIABLE_COMBINE_ROWS_H_
