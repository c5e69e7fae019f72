// Options of saves in the background; see async_saver.h.

#ifndef BELAY_VALUES_ASYNC_OPTIONS_H_
#define BELAY_VALUES_ASYNC_OPTIONS_H_

#include <cstdint>
#include <limits>

namespace belay {

// When the values of a save are copied.
enum class SnapshotMode : uint8_t {
  // Before Save returns; after that, the program may change or free them.
  kInCall,
  // By the thread, while the program continues. The program must not change or
  // free any value before WaitForSnapshot has returned. For a trainer that only
  // reads its values for some time, as in the forward and backward pass.
  kLazy,
};

// Equal on all ranks, except for initial_staging_bytes.
struct AsyncOptions {
  // Maximum number of bytes that a rank copies. Save itself writes the rest
  // before it returns. The memory is kept from save to save. At least 0.
  int64_t max_staging_bytes = std::numeric_limits<int64_t>::max();
  // Number of bytes that the constructor of the saver or of the manager
  // allocates on this rank, so that the first save need not: new memory takes
  // longer than the copy itself. If the allocation fails or is too small, the
  // first save allocates the memory. At least 0; at most max_staging_bytes are
  // allocated.
  int64_t initial_staging_bytes = 0;
  // Maximum rate of writes by the thread of a rank, in bytes per second. 0: no
  // limit.
  int64_t max_bytes_per_second = 0;
  SnapshotMode snapshot = SnapshotMode::kInCall;
};

}  // namespace belay

#endif  // BELAY_VALUES_ASYNC_OPTIONS_H_
