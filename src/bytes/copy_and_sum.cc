#include "bytes/copy_and_sum.h"

#include <array>
#include <cstring>

#include "bytes/checksum.h"
#include "bytes/stream_copy.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace belay {
namespace {

// What follows each other, for processors without these instructions and for
// what is too short: a part stays in the cache between sum and copy.
constexpr int64_t kPartBytes = int64_t{32} << 10;

uint32_t SumThenCopy(uint32_t state, char* target, const char* source,
                     int64_t bytes) {
  for (int64_t at = 0; at < bytes; at += kPartBytes) {
    const int64_t part = bytes - at < kPartBytes ? bytes - at : kPartBytes;
    state = CrcRegister(state, source + at, static_cast<size_t>(part));
    StreamCopy(target + at, source + at, part);
  }
  return state;
}

#if defined(__x86_64__)
// A sum waits three cycles for its last step: three streams, one behind the
// other in memory, keep the processor busy. A page each suits its prefetcher.
constexpr int64_t kStreams = 3;
constexpr int64_t kStreamBytes = 4096;
constexpr int64_t kChunkBytes = kStreams * kStreamBytes;
constexpr int64_t kLine = 64;

// Copies 16 bytes to an address that is a multiple of 16, and sums them.
__attribute__((target("sse4.2"))) inline uint64_t CopyAndSum16(
    uint64_t sum, char* target, const char* source) {
  std::array<uint64_t, 2> words;
  std::memcpy(words.data(), source, sizeof(words));
  _mm_stream_si128(reinterpret_cast<__m128i*>(target),
                   _mm_loadu_si128(reinterpret_cast<const __m128i*>(source)));
  return _mm_crc32_u64(_mm_crc32_u64(sum, words[0]), words[1]);
}

__attribute__((target("sse4.2"))) uint32_t CopyAndSumChunk(uint32_t state,
                                                           char* target,
                                                           const char* source) {
  uint64_t first = state, second = 0, third = 0;
  for (int64_t at = 0; at < kStreamBytes; at += sizeof(__m128i)) {
    first = CopyAndSum16(first, target + at, source + at);
    second = CopyAndSum16(second, target + kStreamBytes + at,
                          source + kStreamBytes + at);
    third = CopyAndSum16(third, target + 2 * kStreamBytes + at,
                         source + 2 * kStreamBytes + at);
  }
  return CrcAppendZeros(static_cast<uint32_t>(first), 2 * kStreamBytes) ^
         CrcAppendZeros(static_cast<uint32_t>(second), kStreamBytes) ^
         static_cast<uint32_t>(third);
}

bool HasCrcInstruction() {
  static const bool has = __builtin_cpu_supports("sse4.2");
  return has;
}
#endif

}  // namespace

uint32_t CopyAndSum(uint32_t state, char* target, const char* source,
                    int64_t bytes) {
#if defined(__x86_64__)
  if (bytes >= kLine + kChunkBytes && HasCrcInstruction()) {
    const auto past = static_cast<int64_t>(reinterpret_cast<uintptr_t>(target) %
                                           uintptr_t{kLine});
    int64_t at = (kLine - past) % kLine;
    state = SumThenCopy(state, target, source, at);
    for (; bytes - at >= kChunkBytes; at += kChunkBytes) {
      state = CopyAndSumChunk(state, target + at, source + at);
    }
    _mm_sfence();
    target += at;
    source += at;
    bytes -= at;
  }
#endif
  return SumThenCopy(state, target, source, bytes);
}

}  // namespace belay
