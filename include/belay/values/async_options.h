// Options of saves in the background; see async_saver.h.

#ifndef BELAY_VALUES_ASYNC_OPTIONS_H_
#define BELAY_VALUES_ASYNC_OPTIONS_H_

#include <cstdint>
#include <limits>

namespace belay {

// Equal on all ranks.
struct AsyncOptions {
  // The most bytes that a rank copies. Save itself writes those that do not
  // fit, before it returns. The memory is kept from save to save. At least 0.
  int64_t max_staging_bytes = std::numeric_limits<int64_t>::max();
  // The most bytes per second that the thread of a rank writes. 0: no limit.
  int64_t max_bytes_per_second = 0;
};

}  // namespace belay

#endif  // BELAY_VALUES_ASYNC_OPTIONS_H_
