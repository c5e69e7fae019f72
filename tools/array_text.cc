#include "array_text.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "absl/strings/str_format.h"
#include "belay/arrays/indexing.h"
#include "number_text.h"

namespace belay::tools {
namespace {

constexpr size_t kLineWidth = 75;
constexpr int64_t kEdge = 3;
// The maximum number of printed elements of an abbreviated array.
constexpr int64_t kMaxExcerpt = 4096;
// An abbreviated array is read in at most kMaxCorners parts, or as a whole if
// the box has at most kMaxAtOnce bytes: if chunks have filters, each part may
// need to read a whole chunk.
constexpr int64_t kMaxCorners = 64;
constexpr int64_t kMaxAtOnce = int64_t{64} << 20;

bool IsCut(int64_t length, int64_t edge) {
  return edge > 0 && length > 2 * edge;
}

Shape ExcerptShape(const Shape& shape, int64_t edge) {
  Shape excerpt = shape;
  for (int64_t& length : excerpt) {
    if (IsCut(length, edge)) length = 2 * edge;
  }
  return excerpt;
}

// Returns how many items at each end of an axis are printed; 0 means all.
int64_t EdgeOf(const Shape& shape, int64_t max_elements) {
  if (NumElements(shape) <= max_elements) return 0;
  int64_t edge = kEdge;
  while (edge > 1 && NumElements(ExcerptShape(shape, edge)) > kMaxExcerpt) {
    --edge;
  }
  return edge;
}

Status TooManyAxes(const char* what, int64_t found, int64_t most) {
  return absl::FailedPreconditionError(absl::StrFormat(
      "too many axes to print both ends of each; choose a part with --box (%s: "
      "at most %d, found %d)",
      what, most, found));
}

// Returns a part of the values that were read of a box.
StatusOr<Tensor> PartOf(const Tensor& whole, const Box& box, const Box& part) {
  Index index;
  for (size_t axis = 0; axis < box.shape.size(); ++axis) {
    const int64_t start = part.offset[axis] - box.offset[axis];
    index.push_back(
        Slice{.start = start, .stop = start + part.shape[axis], .step = 1});
  }
  return GetItem(whole, index);
}

// A part of an excerpt, and its position in the box.
struct Corner {
  Box box;
  Index place;
};

// Returns every combination of the ends of the abbreviated axes.
std::vector<Corner> CornersOf(const Box& box, int64_t edge) {
  std::vector<Corner> corners = {{box, {}}};
  for (size_t axis = 0; axis < box.shape.size(); ++axis) {
    const int64_t length = box.shape[axis];
    std::vector<Corner> more;
    for (const Corner& corner : corners) {
      more.push_back(corner);
      if (!IsCut(length, edge)) {
        more.back().place.push_back(Slice{});
        continue;
      }
      more.back().box.shape[axis] = edge;
      more.back().place.push_back(Slice{.start = 0, .stop = edge, .step = 1});
      more.push_back(corner);
      more.back().box.offset[axis] += length - edge;
      more.back().box.shape[axis] = edge;
      more.back().place.push_back(
          Slice{.start = edge, .stop = 2 * edge, .step = 1});
    }
    corners = std::move(more);
  }
  return corners;
}

// Prints the items of one axis after the other; `next_` is the next element.
class Printer {
 public:
  explicit Printer(const Excerpt& excerpt)
      : excerpt_(excerpt), texts_(AlignedTexts(excerpt.values)) {}

  // Returns the rest of the array from `axis` on. All lines except the first
  // begin with `indent` blanks and have `width` more columns.
  std::string Print(size_t axis, size_t indent, size_t width) {
    if (axis + 1 == excerpt_.shape.size()) return PrintRow(axis, indent, width);
    const std::string between =
        std::string(excerpt_.shape.size() - 1 - axis, '\n') +
        std::string(indent, ' ');
    std::string text = "[";
    for (int64_t i = 0; i < excerpt_.values.shape()[axis]; ++i) {
      if (i > 0) text += between;
      if (IsGap(axis, i)) text += "..." + between;
      text += Print(axis + 1, indent + 1, width - 1);
    }
    return text + "]";
  }

 private:
  // True if items are omitted before item `i`.
  bool IsGap(size_t axis, int64_t i) const {
    return i == excerpt_.edge && IsCut(excerpt_.shape[axis], excerpt_.edge);
  }

  std::string PrintRow(size_t axis, size_t indent, size_t width) {
    text_ = "[";
    column_ = indent;
    for (int64_t i = 0; i < excerpt_.values.shape()[axis]; ++i) {
      if (IsGap(axis, i)) Append("...", indent, width);
      Append(texts_[next_++], indent, width);
    }
    return text_ + "]";
  }

  // Adds a word, on a new line if this one is full.
  void Append(const std::string& word, size_t indent, size_t width) {
    const bool is_first = column_ == indent;
    const size_t needed = word.size() + (is_first ? 0 : 1);
    if (!is_first && column_ + needed > width - 1) {
      while (text_.back() == ' ') text_.pop_back();
      text_ += "\n" + std::string(indent, ' ');
      column_ = indent;
    } else if (!is_first) {
      text_ += ' ';
      ++column_;
    }
    text_ += word;
    column_ += word.size();
  }

  const Excerpt& excerpt_;
  const std::vector<std::string> texts_;
  size_t next_ = 0;
  std::string text_;
  size_t column_ = 0;
};

}  // namespace

StatusOr<Excerpt> ReadExcerpt(
    DType dtype, const Box& box, int64_t max_elements,
    const std::function<StatusOr<Tensor>(const Box&)>& read) {
  const int64_t edge = EdgeOf(box.shape, max_elements);
  const Shape shape = ExcerptShape(box.shape, edge);
  if (edge > 0 && NumElements(shape) > kMaxExcerpt) {
    return TooManyAxes("elements would be printed", NumElements(shape),
                       kMaxExcerpt);
  }
  const std::vector<Corner> corners = CornersOf(box, edge);
  StatusOr<Tensor> whole = Tensor(dtype, {0});
  const bool at_once = std::ssize(corners) > kMaxCorners;
  if (at_once) {
    if (NumElements(box.shape) * DTypeSize(dtype) > kMaxAtOnce) {
      return TooManyAxes("parts would be read", std::ssize(corners),
                         kMaxCorners);
    }
    whole = read(box);
    if (!whole.ok()) return whole.status();
  }
  Excerpt excerpt{Tensor(dtype, shape), edge, box.shape};
  for (const Corner& corner : corners) {
    const StatusOr<Tensor> part =
        at_once ? PartOf(*whole, box, corner.box) : read(corner.box);
    if (!part.ok()) return part.status();
    const Status status = SetItem(excerpt.values, corner.place, *part);
    if (!status.ok()) return status;
  }
  return excerpt;
}

std::string ArrayText(const Excerpt& excerpt) {
  if (excerpt.shape.empty()) return ElementText(excerpt.values, 0);
  if (excerpt.values.num_elements() == 0) return "[]";
  return Printer(excerpt).Print(0, 1, kLineWidth);
}

}  // namespace belay::tools
