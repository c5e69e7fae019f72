// Counts which stripes of a file a rank writes to, and how often.

#ifndef BELAY_IO_FILES_STRIPING_STRIPE_COUNTER_H_
#define BELAY_IO_FILES_STRIPING_STRIPE_COUNTER_H_

#include <cstdint>
#include <vector>

#include "io/files/striping/striping.h"

namespace belay {

// Of one rank, in all files.
struct StripeCounts {
  int64_t stripes = 0;   // that it has written to, each counted once
  int64_t requests = 0;  // writes, cut at the borders of stripes
  std::vector<int64_t> server_requests;  // of them, by server; empty: unknown
};

// For one file and one rank. Memory: one bit for each stripe of the file, but
// those behind the last that was written to.
class StripeCounter {
 public:
  explicit StripeCounter(const Striping& striping) : striping_(striping) {}

  // Counts a write of `bytes` bytes at `offset`; nothing without stripes.
  // Local.
  void Add(int64_t offset, int64_t bytes);

  // Adds what was counted. Local.
  void AddTo(StripeCounts& counts) const;

 private:
  Striping striping_;
  StripeCounts counts_;
  std::vector<bool> is_written_;  // by stripe
};

}  // namespace belay

#endif  // BELAY_IO_FILES_STRIPING_STRIPE_COUNTER_H_
