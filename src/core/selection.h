// Selections: which elements an index takes, and how they are copied.

#ifndef BELAY_CORE_SELECTION_H_
#define BELAY_CORE_SELECTION_H_

#include "belay/arrays/indexing.h"

namespace belay {

// Selection: an index applied to the shape of an array, as plain numbers. The
// values come later, perhaps from many ranks.
//
// The result is a list of rows of RowElements() elements each. Each selected
// position of axis 0 gives one row; with a mask, each selected element of the
// masked axes does. Axes of length 1 that a NewAxis adds do not change the
// rows.
//
// Reading x[index] of an array whose rows lie on several ranks:
//
//   selection = Select(shape, index)              every rank, the same
//   part = RowsWithin(selection, begin, end)      this rank holds [begin, end)
//   CopySelected(selection, begin, part, ...)     its rows, dense
//   gather: row part.first of the result begins at part.first * RowElements()
//
// Assigning goes the other way, with ScatterSelected.

// `count` elements of an axis: start, start + step, ... With count < 2 the step
// is 1, with count 0 the start is 0.
struct AxisRange {
  int64_t start = 0;
  int64_t step = 1;
  int64_t count = 0;
  bool kept = true;  // false: selected by an integer, no axis of the result

  friend bool operator==(const AxisRange&, const AxisRange&) = default;
};

struct Selection {
  Shape source_shape;
  Shape result_shape;
  // One per axis of the source. The masked axes are whole here.
  std::vector<AxisRange> axes;
  // The axis of the result that counts its rows; -1 if axis 0 was indexed by an
  // integer, or if the array has no axes.
  int row_axis = -1;
  // The number of leading axes that a mask covers, else 0, and the selected
  // positions of these axes, counted row-major and ascending.
  int num_masked_axes = 0;
  std::vector<int64_t> positions;
};

// Applies an index.
// Errors: those of GetItem.
StatusOr<Selection> Select(const Shape& shape, const Index& index);

// Returns 1 for an array without axes.
int64_t NumRows(const Selection& selection);

int64_t RowElements(const Selection& selection);

// Rows first, first + 1, .. of the result, `count` of them.
struct RowPart {
  int64_t first = 0;
  int64_t count = 0;

  friend bool operator==(const RowPart&, const RowPart&) = default;
};

// Returns the rows of the result in the positions [begin, end) of axis 0, which
// are contiguous. An array without axes counts as one position.
RowPart RowsWithin(const Selection& selection, int64_t begin, int64_t end);

// Returns the position of a row of the result on axis 0.
int64_t RowPosition(const Selection& selection, int64_t row);

// Copies the rows `part` to `result`, densely. `source` holds the positions of
// axis 0 from `begin` on.
void CopySelected(const Selection& selection, int64_t element_bytes,
                  int64_t begin, const RowPart& part, const std::byte* source,
                  std::byte* result);

// The inverse: copies dense `values` to their places in `target`.
void ScatterSelected(const Selection& selection, int64_t element_bytes,
                     int64_t begin, const RowPart& part,
                     const std::byte* values, std::byte* target);

// Returns the rows `part` of `value` broadcast to the result's shape, densely,
// for ScatterSelected.
// Errors: InvalidArgument - the shape does not broadcast.
StatusOr<Tensor> BroadcastToRows(const Selection& selection,
                                 const Tensor& value, const RowPart& part);

// Returns the error of BroadcastToRows, for a caller without the values. Axes
// of length 1 in front of the value's shape do not count.
Status CheckBroadcast(const Shape& value_shape, const Shape& result_shape);

}  // namespace belay

#endif  // BELAY_CORE_SELECTION_H_
