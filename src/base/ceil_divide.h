// Division that rounds up.

#ifndef BELAY_BASE_CEIL_DIVIDE_H_
#define BELAY_BASE_CEIL_DIVIDE_H_

#include <cstdint>

namespace belay {

// Of numbers that are not negative; `b` is not 0.
constexpr int64_t CeilDivide(int64_t a, int64_t b) {
  return a / b + (a % b != 0 ? 1 : 0);
}

}  // namespace belay

#endif  // BELAY_BASE_CEIL_DIVIDE_H_
