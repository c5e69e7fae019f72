// Selections: which elements an index selects, and how they are copied.

#ifndef BELAY_CORE_SELECTION_H_
#define BELAY_CORE_SELECTION_H_

#include "belay/arrays/indexing.h"

namespace belay {

// A selection is an index applied to an array's shape, in plain numbers. It has
// no values; these may come later, from many ranks.
//
// The result is a list of rows of RowElements() elements each. Each selected
// position of axis 0 gives one row. With a mask, each selected element of the
// masked axes gives one row. Axes of length 1 added by NewAxis do not change
// the rows.
//
// Reading x[index] of an array whose rows are on several ranks:
//
//   selection = Select(shape, index)              every rank, the same
//   part = RowsWithin(selection, begin, end)      this rank has [begin, end)
//   CopySelected(selection, begin, part, ...)     this rank's rows, dense
//   gather: row part.first of the result begins at part.first * RowElements()
//
// Assignment is the reverse, with ScatterSelected.

// `count` elements of an axis: start, start + step, ... If count < 2, step is
// 1; if count is 0, start is 0.
struct AxisRange {
  int64_t start = 0;
  int64_t step = 1;
  int64_t count = 0;
  bool kept = true;  // false: indexed by an integer, not in the result

  friend bool operator==(const AxisRange&, const AxisRange&) = default;
};

struct Selection {
  Shape source_shape;
  Shape result_shape;
  // One per axis of the source. Masked axes are whole here.
  std::vector<AxisRange> axes;
  // The axis of the result that counts its rows; -1 if axis 0 is indexed by an
  // integer, or if the array has no axes.
  int row_axis = -1;
  // The number of leading axes that a mask covers, or 0; and the selected
  // positions within these axes, in row-major order, ascending.
  int num_masked_axes = 0;
  std::vector<int64_t> positions;
};

// Applies an index.
// Errors: those of GetItem.
StatusOr<Selection> Select(const Shape& shape, const Index& index);

// Returns the number of rows; 1 for an array without axes.
int64_t NumRows(const Selection& selection);

int64_t RowElements(const Selection& selection);

// `count` rows of the result, starting with row `first`.
struct RowPart {
  int64_t first = 0;
  int64_t count = 0;

  friend bool operator==(const RowPart&, const RowPart&) = default;
};

// Returns the rows of the result whose positions on axis 0 are in [begin, end).
// These rows are contiguous. An array without axes has one position.
RowPart RowsWithin(const Selection& selection, int64_t begin, int64_t end);

// Returns the position on axis 0 of a row of the result.
int64_t RowPosition(const Selection& selection, int64_t row);

// Copies the rows `part` densely to `result`. `source` holds the positions of
// axis 0 starting at `begin`.
void CopySelected(const Selection& selection, int64_t element_bytes,
                  int64_t begin, const RowPart& part, const std::byte* source,
                  std::byte* result);

// The inverse of CopySelected: copies dense `values` to their places in
// `target`.
void ScatterSelected(const Selection& selection, int64_t element_bytes,
                     int64_t begin, const RowPart& part,
                     const std::byte* values, std::byte* target);

// Returns the rows `part` of `value`, broadcast to the result's shape, densely,
// for ScatterSelected.
// Errors: InvalidArgument - the shape does not broadcast.
StatusOr<Tensor> BroadcastToRows(const Selection& selection,
                                 const Tensor& value, const RowPart& part);

// Returns the error of BroadcastToRows, for a caller without the values.
// Ignores leading axes of length 1 in the value's shape.
Status CheckBroadcast(const Shape& value_shape, const Shape& result_shape);

}  // namespace belay

#endif  // BELAY_CORE_SELECTION_H_
