// Selections: which elements an index takes, and how they are copied.

#ifndef BELAY_CORE_SELECTION_H_
#define BELAY_CORE_SELECTION_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "belay/arrays/box.h"
#include "belay/arrays/indexing.h"
#include "belay/status.h"

namespace belay {

// Copies a piece of one array into a piece of another.
//
// In:  a shape, and for either side where its first element is and how many
//      bytes apart the neighbours along each axis are. Any stride may be
//      negative; a source stride of 0 repeats the element (broadcasting).
// What is contiguous on both sides is moved by memcpy, or by loads and stores
// of a fixed size where that is 1, 2, 4, 8 or 16 bytes.

// One side of a copy. `strides` has one entry per axis, in bytes.
template <typename Byte>
struct Strided {
  Byte* data;
  Shape strides;
};

// Copies all elements. The sides do not overlap.
void StridedCopy(const Shape& shape, int64_t element_bytes,
                 Strided<const std::byte> source, Strided<std::byte> target);

// Selection: an index applied to the shape of an array, as plain numbers.
//
// In:  a shape and an Index. Out: which elements x[index] takes, and the shape
//      of the result. Pure; the values come later, perhaps from many ranks.
//
// The result is a list of rows, each of RowElements() elements and in the order
// of the result. A row is what one position of axis 0 contributes or, with a
// mask, what one selected element of the masked axes does. Axes of length 1
// that a NewAxis added, also those in front, change nothing of that.
//
// Reading x[index] of an array whose rows lie on several ranks:
//
//   selection = Select(shape, index)              every rank, the same
//   part = RowsWithin(selection, begin, end)      this rank holds [begin, end)
//   CopySelected(selection, begin, part, ...)     its rows, dense
//   gather: row part.first of the result begins at part.first * RowElements()
//
// Assigning goes the other way, with ScatterSelected.

// The elements start, start + step, .. of an axis: `count` of them, all inside
// it. With count < 2 the step is 1, with count 0 the start is 0.
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
  // Which axis of the result counts its rows; -1 if an integer took axis 0, or
  // if the array has no axes.
  int row_axis = -1;
  // With a mask: how many first axes it covers, else 0, and the selected
  // positions of these axes, counted row-major and ascending.
  int num_masked_axes = 0;
  std::vector<int64_t> positions;
};

// Applies an index.
// Errors: those of GetItem.
StatusOr<Selection> Select(const Shape& shape, const Index& index);

// The number of rows of the result; 1 for an array without axes.
int64_t NumRows(const Selection& selection);

// The number of elements of one row.
int64_t RowElements(const Selection& selection);

// Rows first, first + 1, .. of the result, `count` of them.
struct RowPart {
  int64_t first = 0;
  int64_t count = 0;

  friend bool operator==(const RowPart&, const RowPart&) = default;
};

// Returns which rows of the result lie in the positions [begin, end) of axis 0.
// They are always neighbours; where none does, count is 0. An array without
// axes counts as one position.
RowPart RowsWithin(const Selection& selection, int64_t begin, int64_t end);

// Returns where row `row` of the result lies on axis 0: for a caller that has
// to find its owner.
int64_t RowPosition(const Selection& selection, int64_t row);

// Copies the rows `part` to `result`, densely. `source` holds the positions of
// axis 0 from `begin` on; all that `part` needs.
void CopySelected(const Selection& selection, int64_t element_bytes,
                  int64_t begin, const RowPart& part, const std::byte* source,
                  std::byte* result);

// The inverse: copies the rows `part` from `values`, where they lie densely,
// to their places in `target`.
void ScatterSelected(const Selection& selection, int64_t element_bytes,
                     int64_t begin, const RowPart& part,
                     const std::byte* values, std::byte* target);

// Returns the rows `part` of `value` broadcast to the result's shape, densely:
// what ScatterSelected takes.
// Errors: InvalidArgument - the shape does not broadcast; names both.
StatusOr<Tensor> BroadcastToRows(const Selection& selection,
                                 const Tensor& value, const RowPart& part);

// Checks what BroadcastToRows needs, for a caller without the values. Axes of
// length 1 in front of the value's shape do not count.
// Errors: those of BroadcastToRows.
Status CheckBroadcast(const Shape& value_shape, const Shape& result_shape);

}  // namespace belay

#endif  // BELAY_CORE_SELECTION_H_
