#include "bytes/copy_and_sum.h"

#include <algorithm>

#include "bytes/checksum.h"
#include "bytes/stream_copy.h"

namespace belay {
namespace {

constexpr int64_t kPartBytes = int64_t{32} << 10;

}  // namespace

uint32_t CopyAndSum(uint32_t state, char* target, const char* source,
                    int64_t bytes) {
  for (int64_t at = 0; at < bytes; at += kPartBytes) {
    const int64_t part = std::min(kPartBytes, bytes - at);
    state = CrcRegister(state, source + at, static_cast<size_t>(part));
    StreamCopy(target + at, source + at, part);
  }
  return state;
}

}  // namespace belay
