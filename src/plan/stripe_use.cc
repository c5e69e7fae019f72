#include "plan/stripe_use.h"

#include <tuple>

namespace belay {
namespace {

// The rows of a box in a file: a row of `bytes` at each index of the `axes`
// outer axes.
struct Rows {
  int64_t begin = 0;  // offset of the first row
  int64_t bytes = 0;
  int64_t count = 1;
  size_t axes = 0;
  Shape steps;  // bytes from one index of an axis to the next
};

Rows FindRows(const Box& box, const Extent& extent, int64_t element_size) {
  Rows rows{.begin = extent.offset,
            .bytes = element_size,
            .axes = box.shape.size(),
            .steps = box.shape};
  int64_t step = element_size;
  for (size_t axis = rows.axes; axis-- > 0;) {
    rows.begin += (box.offset[axis] - extent.box.offset[axis]) * step;
    rows.steps[axis] = step;
    rows.count *= box.shape[axis];
    step *= extent.box.shape[axis];
  }
  return rows;
}

// Merges the innermost of the outer axes into the row, with its gaps.
void TakeAxis(const Box& box, Rows& rows) {
  const size_t axis = --rows.axes;
  rows.bytes += (box.shape[axis] - 1) * rows.steps[axis];
  rows.count /= box.shape[axis];
}

// Returns the offset of row `number`, counted row-major.
int64_t FindBegin(const Box& box, const Rows& rows, int64_t number) {
  int64_t begin = rows.begin;
  for (size_t axis = rows.axes; axis-- > 0;) {
    begin += number % box.shape[axis] * rows.steps[axis];
    number /= box.shape[axis];
  }
  return begin;
}

// Joins ranges of a writer that overlap or touch.
std::vector<StripeRange> Join(std::vector<StripeRange> ranges) {
  std::sort(ranges.begin(), ranges.end(), [](const auto& a, const auto& b) {
    return std::tie(a.writer, a.first) < std::tie(b.writer, b.first);
  });
  std::vector<StripeRange> joined;
  for (const StripeRange& range : ranges) {
    const bool touches = !joined.empty() &&
                         joined.back().writer == range.writer &&
                         range.first <= joined.back().last + 1;
    if (!touches) {
      joined.push_back(range);
    } else {
      joined.back().last = std::max(joined.back().last, range.last);
    }
  }
  return joined;
}

}  // namespace

bool AddStripeRanges(const Box& box, const Extent& extent, int64_t element_size,
                     int64_t stripe_bytes, int64_t most, int32_t writer,
                     std::vector<StripeRange>& ranges) {
  if (IsEmpty(box)) return true;
  Rows rows = FindRows(box, extent, element_size);
  while (rows.axes > 0) {
    // If gaps along the axis contain no whole stripe, a row begins in the
    // stripe in which the previous row ends, or in the next stripe.
    const size_t axis = rows.axes - 1;
    const int64_t gap = rows.steps[axis] - rows.bytes;
    if (box.shape[axis] > 1 && gap >= stripe_bytes) break;
    TakeAxis(box, rows);
  }
  const bool is_exact = rows.count <= most;
  while (rows.count > most) TakeAxis(box, rows);
  for (int64_t number = 0; number < rows.count; ++number) {
    const int64_t begin = FindBegin(box, rows, number);
    ranges.push_back({.first = begin / stripe_bytes,
                      .last = (begin + rows.bytes - 1) / stripe_bytes,
                      .writer = writer});
  }
  return is_exact;
}

StripeUse CountStripes(std::vector<StripeRange> ranges) {
  // Each stripe where the number of writers changes, with the change.
  std::vector<std::pair<int64_t, int32_t>> changes;
  for (const StripeRange& range : Join(std::move(ranges))) {
    changes.emplace_back(range.first, 1);
    changes.emplace_back(range.last + 1, -1);
  }
  std::sort(changes.begin(), changes.end());
  StripeUse use;
  int64_t writers = 0;
  int64_t from = 0;
  for (const auto& [stripe, change] : changes) {
    if (writers > 0) use.stripes += stripe - from;
    if (writers > 1) use.shared += stripe - from;
    writers += change;
    from = stripe;
  }
  return use;
}

}  // namespace belay
