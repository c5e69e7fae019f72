// Copies of boxes between stores of an array: their runs, strides and structs.

#ifndef BELAY_CORE_STRIDED_COPY_H_
#define BELAY_CORE_STRIDED_COPY_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "belay/arrays/box.h"
#include "belay/arrays/fields.h"
#include "belay/status.h"

namespace belay {

// Runs: how a box maps between two row-major stores of the same array.
//
// In:  a box, and the boxes that two stores hold (each dense and row-major).
// Out: the maximal pieces of `box` that are contiguous in both stores, in
//      ascending order of either. No I/O, no allocation beyond a few axes.
// The one place that turns boxes into offsets: writing, reading, copying and
// checksums all go through it.

// `length` elements, at element `a` of the first store and `b` of the second.
struct Run {
  int64_t a = 0;
  int64_t b = 0;
  int64_t length = 0;
};

// Calls `visit` for every run of `box`. `a_box` and `b_box` contain `box`. An
// empty box has no runs; a scalar has one of length 1.
void ForEachRun(const Box& box, const Box& a_box, const Box& b_box,
                absl::FunctionRef<void(const Run&)> visit);

// Where a store has the elements of its box: `strides` apart, by axis. Borrows
// both.
struct StridedStore {
  const Box& box;
  const Shape& strides;  // empty: dense and row-major
};

// `count` runs of `length` elements: the first at element `a` of the first
// store and `b` of the second, the others one step further each.
struct RunSeries {
  int64_t a = 0;
  int64_t a_step = 0;
  int64_t b = 0;
  int64_t b_step = 0;
  int64_t count = 1;
  int64_t length = 0;
};

// The same for stores that need not be dense, with the innermost loop as one
// call.
void ForEachRunSeries(const Box& box, const StridedStore& a,
                      const StridedStore& b,
                      absl::FunctionRef<void(const RunSeries&)> visit);

// Returns the first run that ForEachRun visits; all others are as long.
// Requires a box that is not empty.
Run FirstRun(const Box& box, const Box& a_box, const Box& b_box);

// Returns the number of runs that ForEachRun visits.
int64_t CountRuns(const Box& box, const Box& a_box, const Box& b_box);

// Cuts `box` into boxes of at most `max_elements` elements each, in row-major
// order, along the outermost axes first so that runs stay long. An empty box
// gives nothing. Requires max_elements >= 1.
void ForEachTile(const Box& box, int64_t max_elements,
                 absl::FunctionRef<void(const Box&)> visit);

// The same, and ends with the first error: a box that a file claims to have may
// have more tiles than anybody can visit.
Status TryForEachTile(const Box& box, int64_t max_elements,
                      absl::FunctionRef<Status(const Box&)> visit);

// Copying the elements of a box between stores that need not be dense.

// The strides of a dense row-major array, in elements or, with their size, in
// bytes.
Shape DenseStrides(const Shape& shape, int64_t element_bytes = 1);

// Copies `count` pieces of `bytes` bytes each, which lie so far apart.
void CopySeries(const char* from, int64_t from_step, char* to, int64_t to_step,
                int64_t count, int64_t bytes);

// Copies the elements of `box`, of so many bytes each, from the store at `from`
// to the one at `to`. Both contain the box, and do not overlap.
void CopyElements(const Box& box, const char* from, const StridedStore& from_in,
                  char* to, const StridedStore& to_in, int64_t element_size);

// Copying structs between a program's memory and what is stored of them.
//
// In:  boxes with two axes: the structs, and the bytes of one as it is stored.
//      `memory` is the struct at the corner of `memory_box`, with the others
//      one behind the other; `stored` is dense and row-major.

// Whether structs lie in memory as they are stored.
bool IsDense(const StructLayout& layout);

// Copies what `box` is of the structs; bytes that none of their parts has
// become 0. Both boxes contain `box`.
void PackStructs(const StructLayout& layout, const Box& box, const char* memory,
                 const Box& memory_box, char* stored, const Box& stored_box);

// The other way round; bytes of the program's structs that no part has stay as
// they are.
void UnpackStructs(const StructLayout& layout, const Box& box,
                   const char* stored, const Box& stored_box, char* memory,
                   const Box& memory_box);

}  // namespace belay

#endif  // BELAY_CORE_STRIDED_COPY_H_
