#include "bytes/copy_and_sum.h"

#include <algorithm>
#include <cstring>

#include "bytes/checksum.h"
#include "bytes/stream_copy.h"
#include "bytes/stream_line.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace belay {
namespace {

// What is read for its sum and copied after that stays in the cache of a core.
constexpr int64_t kPartBytes = int64_t{32} << 10;

#if defined(__x86_64__)
constexpr int64_t kPage = 4096;
// Of the halves that are done at once.
constexpr int64_t kLeastHalf = kPage;
constexpr int64_t kMostHalf = int64_t{128} << 10;

bool CanCopyHalves() {
  static const bool can = __builtin_cpu_supports("sse4.2");
  return can;
}

// Whether a loop that reads a line, and soon afterwards writes one, can run at
// full speed. Processors tell a load from the stores before it by the place in
// the page. If the target lies there up to 255 bytes above the source, or up to
// 15 below, each load waits for stores of which it needs nothing. The same
// place is no trouble: what is stored has been loaded before.
bool LieApart(const char* target, const char* source) {
  constexpr uintptr_t kNear = 256, kLast = kPage - 16;
  const uintptr_t distance = (reinterpret_cast<uintptr_t>(target) -
                              reinterpret_cast<uintptr_t>(source)) %
                             uintptr_t{kPage};
  return distance == 0 || (distance >= kNear && distance <= kLast);
}

// The sums of two halves.
struct Halves {
  uint64_t first = 0;
  uint64_t second = 0;
};

// Adds a line of each half to its sum.
__attribute__((target("sse4.2"))) inline void SumLines(const char* first,
                                                       const char* second,
                                                       Halves& sums) {
  for (int64_t i = 0; i < kLineBytes; i += sizeof(uint64_t)) {
    uint64_t a = 0, b = 0;
    std::memcpy(&a, first + i, sizeof(a));
    std::memcpy(&b, second + i, sizeof(b));
    sums.first = _mm_crc32_u64(sums.first, a);
    sums.second = _mm_crc32_u64(sums.second, b);
  }
}

// Copies and sums twice `half` bytes, whole pages, to a target that begins with
// a line. A step of a sum waits for the one before it: two at once take no
// longer than the copy.
__attribute__((target("sse4.2"))) uint32_t CopyHalves(uint32_t state,
                                                      char* target,
                                                      const char* source,
                                                      int64_t half) {
  Halves sums{.first = state};
  for (int64_t at = 0; at < half; at += kLineBytes) {
    SumLines(source + at, source + half + at, sums);
    StreamLine(target + at, source + at);
    StreamLine(target + half + at, source + half + at);
  }
  _mm_sfence();
  return CrcAppendZeros(static_cast<uint32_t>(sums.first),
                        static_cast<uint64_t>(half)) ^
         static_cast<uint32_t>(sums.second);
}

// Copies and sums as much as can be done in halves; returns how much that is.
int64_t CopyInHalves(uint32_t& state, char* target, const char* source,
                     int64_t bytes) {
  const int64_t head = BytesToLine(target);
  if (bytes - head < 2 * kLeastHalf || !CanCopyHalves() ||
      !LieApart(target, source)) {
    return 0;
  }
  state = CrcRegister(state, source, static_cast<size_t>(head));
  std::memcpy(target, source, static_cast<size_t>(head));
  int64_t done = head;
  while (bytes - done >= 2 * kLeastHalf) {
    const int64_t half =
        std::min(kMostHalf, (bytes - done) / 2 / kPage * kPage);
    state = CopyHalves(state, target + done, source + done, half);
    done += 2 * half;
  }
  return done;
}
#else
int64_t CopyInHalves(uint32_t& /*state*/, char* /*target*/,
                     const char* /*source*/, int64_t /*bytes*/) {
  return 0;
}
#endif

}  // namespace

uint32_t CopyAndSum(uint32_t state, char* target, const char* source,
                    int64_t bytes) {
  for (int64_t at = CopyInHalves(state, target, source, bytes); at < bytes;
       at += kPartBytes) {
    const int64_t part = std::min(kPartBytes, bytes - at);
    state = CrcRegister(state, source + at, static_cast<size_t>(part));
    StreamCopy(target + at, source + at, part);
  }
  return state;
}

}  // namespace belay
