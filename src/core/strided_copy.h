// Finds the contiguous runs of a box in two stores of an array, and copies
// elements and structs between them.

#ifndef BELAY_CORE_STRIDED_COPY_H_
#define BELAY_CORE_STRIDED_COPY_H_

#include "absl/functional/function_ref.h"
#include "belay/arrays/fields.h"

namespace belay {

// Runs are the maximal pieces of a box that are contiguous in two stores of the
// same array, in ascending order of either. Writing, reading, copying and
// checksums all use these functions to turn boxes into offsets.

// `length` elements, at element `a` of the first store and `b` of the second.
struct ElementRun {
  int64_t a = 0;
  int64_t b = 0;
  int64_t length = 0;
};

// Calls `visit` for every run of `box` between two dense row-major stores that
// hold `a_box` and `b_box`. Both boxes contain `box`. An empty box has no runs;
// a scalar has one run of length 1.
void ForEachRun(const Box& box, const Box& a_box, const Box& b_box,
                absl::FunctionRef<void(const ElementRun&)> visit);

// A store of the elements of `box`, with a stride per axis. Borrows both
// members.
struct StridedStore {
  const Box& box;
  const Shape& strides;  // empty: dense and row-major
};

// `count` runs of `length` elements. The first is at element `a` of the first
// store and `b` of the second; each further run is one step further in both.
struct RunSeries {
  int64_t a = 0;
  int64_t a_step = 0;
  int64_t b = 0;
  int64_t b_step = 0;
  int64_t count = 1;
  int64_t length = 0;
};

// Like ForEachRun, for stores that need not be dense. Makes one call per
// innermost loop.
void ForEachRunSeries(const Box& box, const StridedStore& a,
                      const StridedStore& b,
                      absl::FunctionRef<void(const RunSeries&)> visit);

// Returns the first run; all runs have the same length. Requires a box that is
// not empty.
ElementRun FirstRun(const Box& box, const Box& a_box, const Box& b_box);

int64_t CountRuns(const Box& box, const Box& a_box, const Box& b_box);

// Cuts `box` into boxes of at most `max_elements` (at least 1) elements, in
// row-major order. Cuts along the outermost axes first so that runs stay long.
void ForEachTile(const Box& box, int64_t max_elements,
                 absl::FunctionRef<void(const Box&)> visit);

// Like ForEachTile, but stops at the first error: a box in a damaged file may
// have more tiles than can be visited.
Status TryForEachTile(const Box& box, int64_t max_elements,
                      absl::FunctionRef<Status(const Box&)> visit);

// Calls `visit` with a number of bytes, as a constant if it is a common element
// size, so that the compiler inlines the copy.
template <typename Visit>
void VisitSize(int64_t bytes, const Visit& visit) {
  switch (bytes) {
    case 1:
      return visit(std::integral_constant<int64_t, 1>());
    case 2:
      return visit(std::integral_constant<int64_t, 2>());
    case 4:
      return visit(std::integral_constant<int64_t, 4>());
    case 8:
      return visit(std::integral_constant<int64_t, 8>());
    case 12:
      return visit(std::integral_constant<int64_t, 12>());
    case 16:
      return visit(std::integral_constant<int64_t, 16>());
    case 24:
      return visit(std::integral_constant<int64_t, 24>());
    default:
      return visit(bytes);
  }
}

// Returns the strides of a dense row-major array, in elements or in bytes.
Shape DenseStrides(const Shape& shape, int64_t element_bytes = 1);

// Copies the elements of `box` from the store at `from` to the one at `to`. The
// stores do not overlap, and both contain the box.
void CopyElements(const Box& box, const char* from, const StridedStore& from_in,
                  char* to, const StridedStore& to_in, int64_t element_size);

// One side of a StridedCopy. `strides` has one entry per axis, in bytes. Any
// may be negative; a source stride of 0 repeats the element (broadcasting).
template <typename Byte>
struct Strided {
  Byte* data;
  Shape strides;
};

// Copies all elements of an array between two sides that do not overlap.
void StridedCopy(const Shape& shape, int64_t element_bytes,
                 Strided<const std::byte> source, Strided<std::byte> target);

// Copying structs between a program's memory and their stored form.
//
// Boxes have two axes: the structs, and the bytes of a stored struct. `memory`
// points to the struct at the corner of `memory_box`; the others follow it
// contiguously. `stored` is dense and row-major.

bool IsDense(const StructLayout& layout);

// Copies the part `box` of the structs, and writes 0 to bytes that no part of
// the layout covers. `memory_box` and `stored_box` contain `box`.
void PackStructs(const StructLayout& layout, const Box& box, const char* memory,
                 const Box& memory_box, char* stored, const Box& stored_box);

// The inverse of PackStructs. Bytes that no part of the layout covers are
// unchanged.
void UnpackStructs(const StructLayout& layout, const Box& box,
                   const char* stored, const Box& stored_box, char* memory,
                   const Box& memory_box);

}  // namespace belay

#endif  // BELAY_CORE_STRIDED_COPY_H_
