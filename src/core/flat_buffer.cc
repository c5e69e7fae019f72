#include "core/flat_buffer.h"

#include <sys/mman.h>

#include <algorithm>

#include "absl/strings/str_format.h"
#include "belay/arrays/flat_buffer.h"
#include "core/status_macros.h"
#include "core/strided_copy.h"
#include "core/text.h"

namespace belay {
namespace {

constexpr uintptr_t kHugePage = uintptr_t{2} << 20;
// In smaller memory, most pages are near the ends and stay small.
constexpr int64_t kLarge = int64_t{8} << 20;

}  // namespace

void UseHugePages(std::byte* data, int64_t size) {
#ifdef MADV_HUGEPAGE
  if (size < kLarge) return;
  const uintptr_t start = reinterpret_cast<uintptr_t>(data);
  const uintptr_t first = (start + kHugePage - 1) / kHugePage * kHugePage;
  const uintptr_t last = (start + size) / kHugePage * kHugePage;
  madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
#endif
}

std::unique_ptr<std::byte[]> NewBytes(int64_t size) {
  auto bytes = std::make_unique_for_overwrite<std::byte[]>(size);
  UseHugePages(bytes.get(), size);
  return bytes;
}

void Reserve(ReusableBytes& memory, int64_t size) {
  if (size > 0 && size <= memory.size && memory.size / 4 <= size) return;
  memory = {};  // frees the old memory first
  if (size == 0) return;
  const int64_t more = size + size / 8;
  memory.bytes = NewBytes(more);
  memory.size = more;
}

// --- Flat buffer ---

namespace {

// Also checks the box.
StatusOr<Box> FindBox(const FlatPiece& piece) {
  BELAY_RETURN_IF_ERROR(CheckedNumElements(piece.global_shape).status());
  Box box = piece.box.value_or(WholeBox(piece.global_shape));
  BELAY_RETURN_IF_ERROR(CheckBox(box, piece.global_shape));
  return box;
}

// Returns the position of a piece's first element in the buffer.
StatusOr<int64_t> FindBegin(const FlatPiece& piece, int64_t end_of_last,
                            int64_t elements) {
  const int64_t begin = piece.begin.value_or(end_of_last);
  if (begin < end_of_last) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "begins before the piece before it ends (need element %d or later, "
        "found %d)",
        end_of_last, begin));
  }
  if (begin <= INT64_MAX - elements) return begin;
  return absl::OutOfRangeError(absl::StrFormat(
      "ends past element 2^63 - 1 (begins at %d and has %d)", begin, elements));
}

}  // namespace

std::vector<Box> BoxesOfRange(const Box& box, int64_t begin, int64_t end) {
  if (begin == end) return {};
  if (begin == 0 && end == NumElements(box.shape)) return {box};
  const Shape strides = DenseStrides(box.shape);
  std::vector<Box> boxes;
  while (begin < end) {
    Box part = box;
    size_t axis = 0;
    // Finds the outermost axis along which a whole index begins here.
    while (begin % strides[axis] != 0 || end - begin < strides[axis]) ++axis;
    for (size_t i = 0; i <= axis; ++i) {
      const int64_t index = begin / strides[i] % box.shape[i];
      part.offset[i] += index;
      part.shape[i] =
          i < axis ? 1
                   : std::min((end - begin) / strides[i], box.shape[i] - index);
    }
    begin += part.shape[axis] * strides[axis];
    boxes.push_back(std::move(part));
  }
  return boxes;
}

StatusOr<std::vector<FlatBox>> BoxesOfFlatRange(
    const std::vector<FlatPiece>& pieces, int64_t begin, int64_t end) {
  if (begin < 0 || end < begin) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "cut a flat buffer: not a range (need 0 <= begin <= end, found "
        "%d and %d)",
        begin, end));
  }
  std::vector<FlatBox> found;
  int64_t next = 0;
  for (size_t i = 0; i < pieces.size(); ++i) {
    StatusOr<Box> box = FindBox(pieces[i]);
    const auto named = [&](const Status& cause) {
      return AddPrefix(cause, "cut a flat buffer: \"", pieces[i].key, "\"");
    };
    if (!box.ok()) return named(box.status());
    const int64_t elements = NumElements(box->shape);
    const StatusOr<int64_t> first = FindBegin(pieces[i], next, elements);
    if (!first.ok()) return named(first.status());
    next = *first + elements;
    if (elements == 0) {
      found.push_back({i, *std::move(box), 0});
      continue;
    }
    int64_t position = std::max(begin, *first);
    for (Box& part :
         BoxesOfRange(*box, position - *first,
                      std::max(position, std::min(end, next)) - *first)) {
      const int64_t length = NumElements(part.shape);
      found.push_back({i, std::move(part), position - begin});
      position += length;
    }
  }
  return found;
}

}  // namespace belay
