// The runs of boxes between two stores of an array, and copies of their
// elements and structs.

#ifndef BELAY_CORE_STRIDED_COPY_H_
#define BELAY_CORE_STRIDED_COPY_H_

#include "absl/functional/function_ref.h"
#include "belay/arrays/fields.h"

namespace belay {

// Runs are the maximal pieces of a box that are contiguous in two stores of the
// same array, in ascending order of either. Writing, reading, copying and
// checksums all turn boxes into offsets by these functions.

// `length` elements, at element `a` of the first store and `b` of the second.
struct ElementRun {
  int64_t a = 0;
  int64_t b = 0;
  int64_t length = 0;
};

// Calls `visit` for every run of `box` between two dense row-major stores, of
// `a_box` and `b_box`, which contain it. An empty box has no runs, a scalar one
// of length 1.
void ForEachRun(const Box& box, const Box& a_box, const Box& b_box,
                absl::FunctionRef<void(const ElementRun&)> visit);

// A store with the elements of its box `strides` apart, by axis. Borrows both.
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

// The same for stores that need not be dense, with one call for the innermost
// loop.
void ForEachRunSeries(const Box& box, const StridedStore& a,
                      const StridedStore& b,
                      absl::FunctionRef<void(const RunSeries&)> visit);

// Returns the first run; all others are as long. Requires a box that is not
// empty.
ElementRun FirstRun(const Box& box, const Box& a_box, const Box& b_box);

int64_t CountRuns(const Box& box, const Box& a_box, const Box& b_box);

// Cuts `box` into boxes of at most `max_elements` elements, at least 1, in
// row-major order, along the outermost axes first so that runs stay long.
void ForEachTile(const Box& box, int64_t max_elements,
                 absl::FunctionRef<void(const Box&)> visit);

// The same, but ends with the first error: a box of a damaged file may have
// more tiles than anybody can visit.
Status TryForEachTile(const Box& box, int64_t max_elements,
                      absl::FunctionRef<Status(const Box&)> visit);

// Calls `visit` with a number of bytes, as a constant if it is the size of an
// element: then the compiler makes a copy a move and no call.
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

// Copies the elements of `box` from the store at `from` to the one at `to`,
// which do not overlap. Both contain the box.
void CopyElements(const Box& box, const char* from, const StridedStore& from_in,
                  char* to, const StridedStore& to_in, int64_t element_size);

// One side of a StridedCopy. `strides` has one entry per axis, in bytes. Any
// may be negative; a source stride of 0 repeats the element (broadcasting).
template <typename Byte>
struct Strided {
  Byte* data;
  Shape strides;
};

// Copies all elements of an array between sides that do not overlap.
void StridedCopy(const Shape& shape, int64_t element_bytes,
                 Strided<const std::byte> source, Strided<std::byte> target);

// Copying structs between a program's memory and what is stored of them.
//
// In:  boxes with two axes: the structs, and the bytes of one as it is stored.
//      `memory` is the struct at the corner of `memory_box`, with the others
//      one behind the other; `stored` is dense and row-major.

bool IsDense(const StructLayout& layout);

// Copies the part `box` of the structs, and 0 for the bytes that no part of the
// layout has. Both other boxes contain `box`.
void PackStructs(const StructLayout& layout, const Box& box, const char* memory,
                 const Box& memory_box, char* stored, const Box& stored_box);

// The inverse. Bytes that no part of the layout has stay as they are.
void UnpackStructs(const StructLayout& layout, const Box& box,
                   const char* stored, const Box& stored_box, char* memory,
                   const Box& memory_box);

}  // namespace belay

#endif  // BELAY_CORE_STRIDED_COPY_H_
