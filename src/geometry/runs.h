// Runs: how a box maps between two row-major stores of the same array.
//
// In:  a box, and the boxes that two stores hold (each dense and row-major).
// Out: the maximal pieces of `box` that are contiguous in both stores, in
//      ascending order of either. No I/O, no allocation beyond a few axes.
// The one place that turns boxes into offsets: writing, reading, copying and
// checksums all go through it.

#ifndef BELAY_GEOMETRY_RUNS_H_
#define BELAY_GEOMETRY_RUNS_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "belay/arrays/box.h"
#include "belay/status.h"

namespace belay {

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

}  // namespace belay

#endif  // BELAY_GEOMETRY_RUNS_H_
