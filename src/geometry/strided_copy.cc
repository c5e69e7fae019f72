#include "geometry/strided_copy.h"

#include <cstring>

namespace belay {
namespace {

// Copies `count` runs whose length is known when this is compiled, so that a
// run is a move and no call.
template <size_t kBytes>
void CopyShort(const char* from, int64_t from_step, char* to, int64_t to_step,
               int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    std::memcpy(to + i * to_step, from + i * from_step, kBytes);
  }
}

}  // namespace

Shape DenseStrides(const Shape& shape, int64_t element_bytes) {
  Shape strides(shape.size());
  int64_t stride = element_bytes;
  for (size_t axis = shape.size(); axis-- > 0;) {
    strides[axis] = stride;
    stride *= shape[axis];
  }
  return strides;
}

void CopySeries(const char* from, int64_t from_step, char* to, int64_t to_step,
                int64_t count, int64_t bytes) {
  switch (bytes) {
    case 1:
      return CopyShort<1>(from, from_step, to, to_step, count);
    case 2:
      return CopyShort<2>(from, from_step, to, to_step, count);
    case 4:
      return CopyShort<4>(from, from_step, to, to_step, count);
    case 8:
      return CopyShort<8>(from, from_step, to, to_step, count);
    case 12:
      return CopyShort<12>(from, from_step, to, to_step, count);
    case 16:
      return CopyShort<16>(from, from_step, to, to_step, count);
    case 24:
      return CopyShort<24>(from, from_step, to, to_step, count);
    default:
      break;
  }
  for (int64_t i = 0; i < count; ++i) {
    std::memcpy(to + i * to_step, from + i * from_step,
                static_cast<size_t>(bytes));
  }
}

void CopyElements(const Box& box, const char* from, const StridedStore& from_in,
                  char* to, const StridedStore& to_in, int64_t element_size) {
  ForEachRunSeries(box, from_in, to_in, [&](const RunSeries& series) {
    CopySeries(from + series.a * element_size, series.a_step * element_size,
               to + series.b * element_size, series.b_step * element_size,
               series.count, series.length * element_size);
  });
}

}  // namespace belay
