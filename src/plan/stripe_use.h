// Counts the stripes of a file that several writers write.

#ifndef BELAY_PLAN_STRIPE_USE_H_
#define BELAY_PLAN_STRIPE_USE_H_

#include "plan/plan.h"

namespace belay {

// Stripes that get bytes of one writer, first and last included.
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

// Adds the stripes that get a byte of `box` as at most `most` (1 or more)
// ascending ranges. Rows between which no whole stripe lies make one range, so
// a box has a range per gap of a stripe, not per run. Returns whether the
// ranges are exact: beyond `most`, gaps between them count as written.
bool AddStripeRanges(const Box& box, const Extent& extent, int64_t element_size,
                     int64_t stripe_bytes, int64_t most, int32_t writer,
                     std::vector<StripeRange>& ranges);

// Ranges of a writer may overlap.
StripeUse CountStripes(std::vector<StripeRange> ranges);

}  // namespace belay

#endif  // BELAY_PLAN_STRIPE_USE_H_
