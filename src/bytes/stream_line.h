// One line of the cache, copied to memory past it.

#ifndef BELAY_BYTES_STREAM_LINE_H_
#define BELAY_BYTES_STREAM_LINE_H_

#ifdef __SSE2__
#include <emmintrin.h>

#include <cstdint>

namespace belay {

inline constexpr int64_t kLineBytes = 64;

// Returns how many bytes before the next line begins.
inline int64_t BytesToLine(const char* at) {
  const auto past = static_cast<int64_t>(reinterpret_cast<uintptr_t>(at) %
                                         uintptr_t{kLineBytes});
  return (kLineBytes - past) % kLineBytes;
}

// Copies a line to an address that is a multiple of 16. Other threads see it
// after the next _mm_sfence.
inline void StreamLine(char* target, const char* source) {
  for (int64_t i = 0; i < kLineBytes; i += sizeof(__m128i)) {
    _mm_stream_si128(
        reinterpret_cast<__m128i*>(target + i),
        _mm_loadu_si128(reinterpret_cast<const __m128i*>(source + i)));
  }
}

}  // namespace belay

#endif  // __SSE2__
#endif  // BELAY_BYTES_STREAM_LINE_H_
