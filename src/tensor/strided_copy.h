// Copies a piece of one array into a piece of another.
//
// In:  a shape, and for either side where its first element is and how many
//      bytes apart the neighbours along each axis are. Any stride may be
//      negative; a source stride of 0 repeats the element (broadcasting).
// What is contiguous on both sides is moved by memcpy, or by loads and stores
// of a fixed size where that is 1, 2, 4, 8 or 16 bytes.

#ifndef BELAY_TENSOR_STRIDED_COPY_H_
#define BELAY_TENSOR_STRIDED_COPY_H_

#include <cstddef>
#include <cstdint>

#include "belay/arrays/box.h"

namespace belay {

// One side of a copy. `strides` has one entry per axis, in bytes.
template <typename Byte>
struct Strided {
  Byte* data;
  Shape strides;
};

// Copies all elements. The sides do not overlap. Local.
void StridedCopy(const Shape& shape, int64_t element_bytes,
                 Strided<const std::byte> source, Strided<std::byte> target);

}  // namespace belay

#endif  // BELAY_TENSOR_STRIDED_COPY_H_
