#include "bytes/stream_copy.h"

#include <cstring>

#include "bytes/stream_line.h"

namespace belay {

void StreamCopy(char* target, const char* source, int64_t bytes) {
#ifdef __SSE2__
  // Below some lines it does not pay.
  constexpr int64_t kLeastBytes = 32 * kLineBytes;
  if (bytes >= kLeastBytes) {
    const int64_t head = BytesToLine(target);
    std::memcpy(target, source, head);
    int64_t at = head;
    for (; bytes - at >= kLineBytes; at += kLineBytes) {
      StreamLine(target + at, source + at);
    }
    _mm_sfence();
    target += at;
    source += at;
    bytes -= at;
  }
#endif
  std::memcpy(target, source, bytes);
}

}  // namespace belay
