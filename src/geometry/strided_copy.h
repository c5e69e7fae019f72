// Copying the elements of a box between stores that need not be dense.

#ifndef BELAY_GEOMETRY_STRIDED_COPY_H_
#define BELAY_GEOMETRY_STRIDED_COPY_H_

#include <cstdint>

#include "belay/arrays/box.h"
#include "geometry/runs.h"

namespace belay {

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

}  // namespace belay

#endif  // BELAY_GEOMETRY_STRIDED_COPY_H_
