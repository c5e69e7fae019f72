// Rows in random order: the memory of the next ones is asked for while the
// first one is copied, as each alone costs more to wait for than to copy.

#ifndef BELAY_VALUES_ROWS_PREFETCH_H_
#define BELAY_VALUES_ROWS_PREFETCH_H_

#include <cstdint>

namespace belay {

inline constexpr int64_t kRowsAhead = 16;

// Asks for the first and the last line of a row; those between follow.
inline void PrefetchRow(const void* row, int64_t bytes) {
  const auto* first = static_cast<const char*>(row);
  __builtin_prefetch(first);
  __builtin_prefetch(first + bytes - 1);
}

}  // namespace belay

#endif  // BELAY_VALUES_ROWS_PREFETCH_H_
