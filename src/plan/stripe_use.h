// Counts the stripes of a file that several writers write.

#ifndef BELAY_PLAN_STRIPE_USE_H_
#define BELAY_PLAN_STRIPE_USE_H_

#include "plan/plan.h"

namespace belay {

// Stripes that one writer writes to, first and last included.
struct StripeRange {
  int64_t first = 0;
  int64_t last = 0;
  int32_t writer = 0;

  friend bool operator==(const StripeRange&, const StripeRange&) = default;
};

struct StripeUse {
  int64_t stripes = 0;  // stripes that are written
  int64_t shared = 0;   // stripes that several writers write

  friend bool operator==(const StripeUse&, const StripeUse&) = default;
};

// Adds the stripes that get a byte of `box` as at most `most` (1 or more)
// ascending ranges. Rows without a whole stripe between them form one range, so
// a new range begins after a gap of at least one stripe, not with each run.
// Returns true if the ranges are exact. If there would be more than `most`,
// gaps between ranges are treated as written.
bool AddStripeRanges(const Box& box, const Extent& extent, int64_t element_size,
                     int64_t stripe_bytes, int64_t most, int32_t writer,
                     std::vector<StripeRange>& ranges);

// Ranges of a writer may overlap.
StripeUse CountStripes(std::vector<StripeRange> ranges);

}  // namespace belay

#endif  // BELAY_PLAN_STRIPE_USE_H_
