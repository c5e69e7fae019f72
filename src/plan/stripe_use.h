// Which stripes of a file are written by several writers.
//
// In:  the boxes that each writer puts into extents of the file.
// Out: how many stripes get bytes, and how many of several writers.

#ifndef BELAY_PLAN_STRIPE_USE_H_
#define BELAY_PLAN_STRIPE_USE_H_

#include <cstdint>
#include <vector>

#include "belay/arrays/box.h"
#include "plan/plan.h"

namespace belay {

// Stripes of a file that get bytes of one writer, both ends included.
struct StripeRange {
  int64_t first = 0;
  int64_t last = 0;
  int32_t writer = 0;

  friend bool operator==(const StripeRange&, const StripeRange&) = default;
};

struct StripeUse {
  int64_t stripes = 0;  // that get bytes
  int64_t shared = 0;   // of them, of several writers

  friend bool operator==(const StripeUse&, const StripeUse&) = default;
};

// Adds the stripes of `stripe_bytes` that get a byte of `box`, as ascending
// ranges, at most `most` of them (1 or more). Rows between which no whole
// stripe lies make one range, so that a box has as many ranges as it has gaps
// of a stripe, not as it has runs. Returns whether the ranges are exact: if
// there were more than `most`, gaps between them count as written.
bool AddStripeRanges(const Box& box, const Extent& extent, int64_t element_size,
                     int64_t stripe_bytes, int64_t most, int32_t writer,
                     std::vector<StripeRange>& ranges);

// Counts the stripes of one file. Ranges of a writer may overlap.
StripeUse CountStripes(std::vector<StripeRange> ranges);

}  // namespace belay

#endif  // BELAY_PLAN_STRIPE_USE_H_
