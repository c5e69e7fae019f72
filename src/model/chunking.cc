#include "model/chunking.h"

#include <algorithm>

#include "geometry/runs.h"

namespace belay {
namespace {

bool IsGridCell(const Box& box, const Shape& shape, const Shape& chunk) {
  for (size_t i = 0; i < shape.size(); ++i) {
    if (box.offset[i] % chunk[i] != 0) return false;
    if (box.shape[i] != std::min(chunk[i], shape[i] - box.offset[i])) {
      return false;
    }
  }
  return true;
}

bool HasShortRuns(const Box& box, const Shape& shape, int64_t element_size) {
  const int64_t runs = CountRuns(box, box, WholeBox(shape));
  return runs > 1 &&
         NumElements(box.shape) / runs * element_size < kLongRunBytes;
}

}  // namespace

Shape ChooseChunkShape(const Shape& shape, int64_t element_size,
                       const std::vector<const Box*>& boxes) {
  if (boxes.size() < 2) return {};
  const Shape& chunk = boxes[0]->shape;
  if (NumElements(chunk) > kMaxChunkBytes / element_size) return {};
  bool short_runs = false;
  for (const Box* box : boxes) {
    if (!IsGridCell(*box, shape, chunk)) return {};
    short_runs = short_runs || HasShortRuns(*box, shape, element_size);
  }
  return short_runs ? chunk : Shape{};
}

}  // namespace belay
