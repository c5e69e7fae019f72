#include "plan/chunks/default_chunks.h"

#include <algorithm>

#include "base/ceil_divide.h"
#include "base/text.h"
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

Shape CellShape(const Shape& shape, const std::vector<const Box*>& boxes) {
  if (boxes.empty()) return {};
  const Shape& cell = boxes[0]->shape;
  const bool is_grid = std::all_of(
      boxes.begin(), boxes.end(),
      [&](const Box* box) { return IsGridCell(*box, shape, cell); });
  return is_grid ? cell : Shape{};
}

Shape ChooseChunkShape(const Shape& shape, int64_t element_size,
                       const std::vector<const Box*>& boxes) {
  if (boxes.size() < 2) return {};
  const Shape cell = CellShape(shape, boxes);
  if (NumElements(cell) > kMaxChunkBytes / element_size) return {};
  const bool short_runs = std::any_of(
      boxes.begin(), boxes.end(),
      [&](const Box* box) { return HasShortRuns(*box, shape, element_size); });
  return short_runs ? cell : Shape{};
}

Status ChunkCount::Add(std::string_view key, const Shape& shape,
                       const Shape& chunk, int64_t element_size) {
  constexpr int64_t kOfDataset = int64_t{1} << 20;
  constexpr int64_t kOfCheckpoint = int64_t{1} << 24;
  constexpr int64_t kBytesOfMore = 64 << 10;
  if (chunk.empty()) return absl::OkStatus();
  int64_t count = 1;
  for (size_t i = 0; i < chunk.size(); ++i) {
    count *= CeilDivide(shape[i], chunk[i]);
  }
  const int64_t more = NumElements(shape) * element_size / kBytesOfMore;
  more_ += std::min(more, INT64_MAX / 2 - more_);
  const int64_t most =
      std::min(kOfDataset + more, kOfCheckpoint + more_ - chunks_);
  if (count > most) {
    return absl::ResourceExhaustedError(Cat(
        operation_, ": key \"", key,
        "\": there are too many chunks; save it in larger ones (need at most ",
        most, ", found ", count, ", and ", chunks_, " before)"));
  }
  chunks_ += count;
  return absl::OkStatus();
}

}  // namespace belay
