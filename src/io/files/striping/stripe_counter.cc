#include "io/files/striping/stripe_counter.h"

#include <algorithm>

namespace belay {

void StripeCounter::Add(int64_t offset, int64_t bytes) {
  if (striping_.stripe_bytes == 0 || bytes <= 0) return;
  const int64_t first = offset / striping_.stripe_bytes;
  const int64_t last = (offset + bytes - 1) / striping_.stripe_bytes;
  if (last >= std::ssize(is_written_)) is_written_.resize(last + 1);
  counts_.server_requests.resize(striping_.servers);
  counts_.requests += last - first + 1;
  for (int64_t stripe = first; stripe <= last; ++stripe) {
    if (!is_written_[stripe]) ++counts_.stripes;
    is_written_[stripe] = true;
    if (striping_.servers == 0) continue;
    ++counts_.server_requests[stripe % striping_.servers];
  }
}

void StripeCounter::AddTo(StripeCounts& counts) const {
  counts.stripes += counts_.stripes;
  counts.requests += counts_.requests;
  const size_t servers = counts_.server_requests.size();
  if (counts.server_requests.size() < servers) {
    counts.server_requests.resize(servers);
  }
  for (size_t i = 0; i < servers; ++i) {
    counts.server_requests[i] += counts_.server_requests[i];
  }
}

}  // namespace belay
