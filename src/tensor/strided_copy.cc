#include "tensor/strided_copy.h"

#include <cstring>

namespace belay {
namespace {

// The last axis of a copy.
struct Line {
  int64_t count;
  int64_t bytes;  // of one element
  int64_t source_stride;
  int64_t target_stride;
};

using CopyLine = void (*)(const Line& line, const std::byte* source,
                          std::byte* target);

template <size_t kBytes>
void CopyFixed(const Line& line, const std::byte* source, std::byte* target) {
  for (int64_t i = 0; i < line.count; ++i) {
    std::memcpy(target + i * line.target_stride,
                source + i * line.source_stride, kBytes);
  }
}

void CopyAny(const Line& line, const std::byte* source, std::byte* target) {
  for (int64_t i = 0; i < line.count; ++i) {
    std::memcpy(target + i * line.target_stride,
                source + i * line.source_stride, line.bytes);
  }
}

CopyLine ChooseCopyLine(int64_t bytes) {
  switch (bytes) {
    case 1:
      return CopyFixed<1>;
    case 2:
      return CopyFixed<2>;
    case 4:
      return CopyFixed<4>;
    case 8:
      return CopyFixed<8>;
    case 16:
      return CopyFixed<16>;
    default:
      return CopyAny;
  }
}

// A copy with as few axes as describe it.
struct Merged {
  Shape shape;
  Shape source;  // strides
  Shape target;
  int64_t element_bytes;
};

// Leaves out axes of length 1, and joins an axis with the one inside it where
// one step outside is the whole length inside, on both sides.
Merged MergeAxes(const Shape& shape, int64_t element_bytes, const Shape& source,
                 const Shape& target) {
  Merged m{
      .shape = {}, .source = {}, .target = {}, .element_bytes = element_bytes};
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    const int64_t length = shape[axis];
    if (length == 1) continue;
    if (!m.shape.empty() && m.source.back() == source[axis] * length &&
        m.target.back() == target[axis] * length) {
      m.shape.back() *= length;
      m.source.back() = source[axis];
      m.target.back() = target[axis];
      continue;
    }
    m.shape.push_back(length);
    m.source.push_back(source[axis]);
    m.target.push_back(target[axis]);
  }
  return m;
}

// Makes a contiguous last axis one large element.
void AbsorbLastAxis(Merged& m) {
  if (m.shape.empty() || m.source.back() != m.element_bytes ||
      m.target.back() != m.element_bytes) {
    return;
  }
  m.element_bytes *= m.shape.back();
  m.shape.pop_back();
  m.source.pop_back();
  m.target.pop_back();
}

// Advances to the next line, as an odometer does; the last axis is `copy`'s.
// Returns whether there was one.
bool NextLine(const Merged& m, Shape& position, int64_t& source,
              int64_t& target) {
  for (size_t axis = m.shape.size() - 1; axis-- > 0;) {
    source += m.source[axis];
    target += m.target[axis];
    if (++position[axis] < m.shape[axis]) return true;
    position[axis] = 0;
    source -= m.source[axis] * m.shape[axis];
    target -= m.target[axis] * m.shape[axis];
  }
  return false;
}

}  // namespace

void StridedCopy(const Shape& shape, int64_t element_bytes,
                 Strided<const std::byte> source, Strided<std::byte> target) {
  if (NumElements(shape) == 0) return;
  Merged m = MergeAxes(shape, element_bytes, source.strides, target.strides);
  AbsorbLastAxis(m);
  if (m.shape.empty()) {
    std::memcpy(target.data, source.data, m.element_bytes);
    return;
  }
  const Line line{.count = m.shape.back(),
                  .bytes = m.element_bytes,
                  .source_stride = m.source.back(),
                  .target_stride = m.target.back()};
  const CopyLine copy_line = ChooseCopyLine(m.element_bytes);
  Shape position(m.shape.size(), 0);
  int64_t from = 0, to = 0;
  do {
    copy_line(line, source.data + from, target.data + to);
  } while (NextLine(m, position, from, to));
}

}  // namespace belay
