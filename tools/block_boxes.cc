#include "block_boxes.h"

#include <algorithm>

namespace belay::tools {
namespace {

constexpr int64_t kBlockBytes = int64_t{1} << 20;
// A part with more runs is treated as one run, from its first to its last
// element.
constexpr int64_t kMaxRuns = 4096;

// Elements or blocks, row-major.
struct Range {
  int64_t begin = 0;
  int64_t end = 0;
};

int64_t PositionOf(const Shape& index, const Shape& shape) {
  int64_t position = 0;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    position = position * shape[axis] + index[axis];
  }
  return position;
}

Shape IndexOf(int64_t position, const Shape& shape) {
  Shape index(shape.size(), 0);
  for (size_t axis = shape.size(); axis-- > 0;) {
    index[axis] = position % shape[axis];
    position /= shape[axis];
  }
  return index;
}

// Returns the runs of elements that a box consists of, ascending.
std::vector<Range> RunsOf(const Box& part, const Shape& shape) {
  // Axes from here on are in one run.
  size_t inner = shape.size();
  int64_t length = 1;
  while (inner > 0) {
    --inner;
    length *= part.shape[inner];
    if (part.shape[inner] != shape[inner]) break;
  }
  const int64_t first = PositionOf(part.offset, shape);
  const int64_t runs = NumElements(part.shape) / length;
  if (runs > kMaxRuns) {
    Shape last = part.offset;
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      last[axis] += part.shape[axis] - 1;
    }
    return {{first, PositionOf(last, shape) + 1}};
  }
  std::vector<Range> found;
  const Shape outer(part.shape.begin(), part.shape.begin() + inner);
  for (int64_t run = 0; run < runs; ++run) {
    Shape index = part.offset;
    const Shape moved = IndexOf(run, outer);
    for (size_t axis = 0; axis < inner; ++axis) index[axis] += moved[axis];
    const int64_t begin = PositionOf(index, shape);
    found.push_back({begin, begin + length});
  }
  return found;
}

// Returns the ranges without overlaps; adjacent ranges are merged.
std::vector<Range> Joined(std::vector<Range> ranges) {
  std::ranges::sort(ranges, {}, &Range::begin);
  std::vector<Range> joined;
  for (const Range& range : ranges) {
    if (!joined.empty() && range.begin <= joined.back().end) {
      joined.back().end = std::max(joined.back().end, range.end);
    } else {
      joined.push_back(range);
    }
  }
  return joined;
}

// Returns the smallest box that holds these elements.
Box BoxAround(const Range& elements, const Shape& shape) {
  Box box{.offset = IndexOf(elements.begin, shape), .shape = shape};
  const Shape last = IndexOf(elements.end - 1, shape);
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    box.shape[axis] = last[axis] - box.offset[axis] + 1;
    if (last[axis] == box.offset[axis]) continue;
    for (size_t inner = axis + 1; inner < shape.size(); ++inner) {
      box.offset[inner] = 0;
      box.shape[inner] = shape[inner];
    }
    break;
  }
  return box;
}

}  // namespace

BlockBoxes BoxesOfBlocks(const Shape& shape, int64_t element_bytes,
                         const std::vector<Box>& parts, int64_t most_bytes) {
  std::vector<Range> blocks;
  for (const Box& part : parts) {
    if (NumElements(part.shape) == 0) continue;
    for (const Range& run : RunsOf(part, shape)) {
      blocks.push_back({run.begin * element_bytes / kBlockBytes,
                        (run.end * element_bytes - 1) / kBlockBytes + 1});
    }
  }
  const int64_t total = NumElements(shape);
  BlockBoxes result;
  int64_t bytes = 0;
  const auto add = [&](const Range& range) {
    const int64_t end = range.end * kBlockBytes;
    const Range elements{range.begin * kBlockBytes / element_bytes,
                         std::min(total, (end - 1) / element_bytes + 1)};
    Box box = BoxAround(elements, shape);
    const int64_t more = NumElements(box.shape) * element_bytes;
    if (more > most_bytes - bytes) return false;
    bytes += more;
    result.boxes.push_back(std::move(box));
    return true;
  };
  for (const Range& range : Joined(std::move(blocks))) {
    if (add(range)) continue;
    // Separate boxes for the blocks may need fewer bytes.
    for (int64_t block = range.begin; block < range.end; ++block) {
      if (bytes + kBlockBytes > most_bytes) {
        result.all = false;
        break;
      }
      if (!add({block, block + 1})) result.all = false;
    }
  }
  return result;
}

}  // namespace belay::tools
