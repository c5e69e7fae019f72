// Options of saves in the background; see async_saver.h.

#ifndef BELAY_VALUES_ASYNC_OPTIONS_H_
#define BELAY_VALUES_ASYNC_OPTIONS_H_

#include <cstdint>
#include <limits>

namespace belay {

// When the values of a save are copied.
enum class SnapshotMode : uint8_t {
  // Before Save returns: the program may change or free them then.
  kInCall,
  // By the thread, while the program goes on: it must not change or free any
  // value before WaitForSnapshot has returned. For a trainer that only reads
  // its values for a while, as in the forward and backward pass.
  kLazy,
};

// Equal on all ranks, but initial_staging_bytes.
struct AsyncOptions {
  // The most bytes that a rank copies. Save itself writes those that do not
  // fit, before it returns. The memory is kept from save to save. At least 0.
  int64_t max_staging_bytes = std::numeric_limits<int64_t>::max();
  // Bytes of this rank for which the constructor of the saver or of the manager
  // takes the memory, so that the first save need not: new memory costs it more
  // than the copy. If it cannot be had, or is too little, the first save takes
  // it. At least 0; not more than max_staging_bytes are taken.
  int64_t initial_staging_bytes = 0;
  // The most bytes per second that the thread of a rank writes. 0: no limit.
  int64_t max_bytes_per_second = 0;
  SnapshotMode snapshot = SnapshotMode::kInCall;
};

}  // namespace belay

#endif  // BELAY_VALUES_ASYNC_OPTIONS_H_
