#include "bytes/stream_copy.h"

#include <cstring>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace belay {
namespace {

// Whole lines of the cache; below some of them it does not pay.
constexpr int64_t kLine = 64;
constexpr int64_t kLeastBytes = 32 * kLine;

#ifdef __SSE2__
// Copies one line to an address that is a multiple of 16.
void StreamLine(char* target, const char* source) {
  for (int64_t i = 0; i < kLine; i += 16) {
    const __m128i part =
        _mm_loadu_si128(reinterpret_cast<const __m128i*>(source + i));
    _mm_stream_si128(reinterpret_cast<__m128i*>(target + i), part);
  }
}
#endif

}  // namespace

void StreamCopy(char* target, const char* source, int64_t bytes) {
#ifdef __SSE2__
  if (bytes >= kLeastBytes) {
    const auto past = static_cast<int64_t>(reinterpret_cast<uintptr_t>(target) %
                                           uintptr_t{kLine});
    const int64_t head = (kLine - past) % kLine;
    std::memcpy(target, source, head);
    int64_t at = head;
    for (; bytes - at >= kLine; at += kLine) {
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
