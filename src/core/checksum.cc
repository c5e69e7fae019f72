#include "core/checksum.h"

#include <isa-l/crc.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace belay {
namespace {

// Polynomials are reflected: the top bit is the coefficient of x^0.
constexpr uint32_t kPolynomial = 0x82F63B78;
constexpr uint32_t kUnit = 0x80000000;
constexpr uint32_t kXToThe8 = 0x00800000;

// ISA-L takes buffer lengths as int.
constexpr size_t kMaxIsalBytes = size_t{1} << 30;

using IsalFunction = unsigned int (*)(unsigned char*, int, unsigned int);

#if defined(__x86_64__)
__attribute__((target("avx"))) void ZeroUpperHalves() { _mm256_zeroupper(); }
#endif

// ISA-L leaves the upper halves of the vector registers in use. Until they are
// zeroed, the processor runs all SSE code of this thread more slowly, by almost
// half on AMD Zen 4. This also affects the program's own loops long after a
// save.
void ReleaseVectorRegisters() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx")) ZeroUpperHalves();
#endif
}

uint32_t CallIsal(IsalFunction function, uint32_t state, const void* data,
                  size_t size) {
  auto* bytes = static_cast<unsigned char*>(const_cast<void*>(data));
  while (size > 0) {
    const size_t part = std::min(size, kMaxIsalBytes);
    state = function(bytes, static_cast<int>(part), state);
    bytes += part;
    size -= part;
  }
  ReleaseVectorRegisters();
  return state;
}

constexpr uint32_t MultiplyPortable(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (uint32_t bit = kUnit; bit != 0; bit >>= 1) {
    if (a & bit) product ^= b;
    b = (b >> 1) ^ ((b & 1) ? kPolynomial : 0);
  }
  return product;
}

#if defined(__x86_64__)
__attribute__((target("pclmul,sse4.2"))) inline uint32_t MultiplyHardware(
    uint32_t a, uint32_t b) {
  const __m128i product =
      _mm_clmulepi64_si128(_mm_cvtsi32_si128(static_cast<int>(a)),
                           _mm_cvtsi32_si128(static_cast<int>(b)), 0);
  // The shift by one bit aligns the 63-bit product. One CRC step reduces its
  // low half, the powers from x^32 up.
  const uint64_t wide = static_cast<uint64_t>(_mm_cvtsi128_si64(product)) << 1;
  return static_cast<uint32_t>(wide >> 32) ^
         _mm_crc32_u32(0, static_cast<uint32_t>(wide));
}
#endif

uint32_t Multiply(uint32_t a, uint32_t b) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.2")) {
    return MultiplyHardware(a, b);
  }
#endif
  return MultiplyPortable(a, b);
}

// Entry i is x^(8 * 2^i), the factor for 2^i zero bytes.
constexpr std::array<uint32_t, 64> MakeZeroFactors() {
  std::array<uint32_t, 64> factors{};
  factors[0] = kXToThe8;
  for (size_t i = 1; i < factors.size(); ++i) {
    factors[i] = MultiplyPortable(factors[i - 1], factors[i - 1]);
  }
  return factors;
}

constexpr std::array<uint32_t, 64> kZeroFactors = MakeZeroFactors();

// Returns x^(8 * bytes).
uint32_t ZeroFactor(uint64_t bytes) {
  uint32_t factor = kUnit;
  for (size_t i = 0; bytes != 0; ++i, bytes >>= 1) {
    if (bytes & 1) factor = Multiply(factor, kZeroFactors[i]);
  }
  return factor;
}

// Returns CrcRegister of a run. Also copies the run if `copy` is not null.
uint32_t SumRun(uint32_t state, const char* data, int64_t size, char* copy) {
  return copy == nullptr ? CrcRegister(state, data, static_cast<size_t>(size))
                         : CopyAndSum(state, copy, data, size);
}

}  // namespace

uint32_t CrcRegister(uint32_t state, const void* data, size_t size) {
  return CallIsal(crc32_iscsi, state, data, size);
}

uint32_t CrcRegisterPortable(uint32_t state, const void* data, size_t size) {
  return CallIsal(crc32_iscsi_base, state, data, size);
}

uint32_t CrcAppendZeros(uint32_t state, uint64_t bytes) {
  return Multiply(state, ZeroFactor(bytes));
}

uint32_t StandardCrc(uint32_t state, uint64_t bytes) {
  return ~(state ^ CrcAppendZeros(0xFFFFFFFF, bytes));
}

int64_t NumBlocks(int64_t array_bytes) {
  return array_bytes / kBlockBytes + (array_bytes % kBlockBytes != 0);
}

BlockSum::BlockSum(int64_t array_bytes, std::span<uint32_t> registers) {
  Restart(array_bytes, registers);
}

void BlockSum::Restart(int64_t array_bytes, std::span<uint32_t> registers) {
  assert(static_cast<int64_t>(registers.size()) == NumBlocks(array_bytes));
  Flush();
  array_bytes_ = array_bytes;
  registers_ = registers;
}

void BlockSum::Add(int64_t offset, const void* data, int64_t size, char* copy) {
  assert(offset >= 0 && size >= 0 && size <= array_bytes_ - offset);
  const char* bytes = static_cast<const char*>(data);
  while (size > 0) {
    const int64_t in_block = kBlockBytes - offset % kBlockBytes;
    const int64_t part = std::min(size, in_block);
    AddInBlock(offset, bytes, part, copy);
    offset += part;
    bytes += part;
    if (copy != nullptr) copy += part;
    size -= part;
  }
}

void BlockSum::AddInBlock(int64_t offset, const char* data, int64_t size,
                          char* copy) {
  if (offset < position_ || offset >= end_) {
    Flush();
    const int64_t block_start = offset - offset % kBlockBytes;
    end_ = block_start + std::min(kBlockBytes, array_bytes_ - block_start);
    state_ = SumRun(0, data, size, copy);
  } else if (offset == position_) {
    state_ = SumRun(state_, data, size, copy);
  } else {
    // The register of the run does not depend on the previous run, so the
    // processor overlaps short runs.
    state_ =
        MoveBy(offset + size - position_, step_) ^ SumRun(0, data, size, copy);
  }
  position_ = offset + size;
}

uint32_t BlockSum::MoveBy(int64_t bytes, Distance& last) const {
  if (last.bytes != bytes) {
    last = {bytes, ZeroFactor(static_cast<uint64_t>(bytes))};
  }
  return Multiply(state_, last.factor);
}

void BlockSum::Flush() {
  if (end_ == 0) return;
  const auto block = static_cast<size_t>((end_ - 1) / kBlockBytes);
  registers_[block] ^= MoveBy(end_ - position_, tail_);
  end_ = 0;
}

// --- Copies past the caches ---

#ifdef __SSE2__
namespace {

constexpr int64_t kLineBytes = 64;  // of the cache

int64_t BytesToNextLine(const char* at) {
  return static_cast<int64_t>(-reinterpret_cast<uintptr_t>(at) %
                              uintptr_t{kLineBytes});
}

// Copies a line to an address that is a multiple of 16. The next _mm_sfence
// makes it visible to other threads.
void StreamLine(char* target, const char* source) {
  for (int64_t i = 0; i < kLineBytes; i += sizeof(__m128i)) {
    _mm_stream_si128(
        reinterpret_cast<__m128i*>(target + i),
        _mm_loadu_si128(reinterpret_cast<const __m128i*>(source + i)));
  }
}

}  // namespace
#endif

void StreamCopy(char* target, const char* source, int64_t bytes) {
#ifdef __SSE2__
  // Below this size, streaming does not pay off.
  constexpr int64_t kLeastBytes = 32 * kLineBytes;
  if (bytes >= kLeastBytes) {
    const int64_t head = BytesToNextLine(target);
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

namespace {

// Small enough to stay in a core's cache between its sum and its copy.
constexpr int64_t kPartBytes = int64_t{32} << 10;

#if defined(__x86_64__)
constexpr int64_t kPage = 4096;
constexpr int64_t kLeastHalf = kPage;
constexpr int64_t kMaxHalf = int64_t{128} << 10;

// Returns true if a loop that reads lines and soon writes others runs at full
// speed. Processors match loads with earlier stores by their offset in the
// page. If the target's offset is up to 255 bytes above the source's, or up to
// 15 below, each load waits for unrelated stores. If the offsets are equal,
// each store comes after its load.
bool LieApart(const char* target, const char* source) {
  constexpr uintptr_t kNear = 256, kLast = kPage - 16;
  const uintptr_t distance = (reinterpret_cast<uintptr_t>(target) -
                              reinterpret_cast<uintptr_t>(source)) %
                             uintptr_t{kPage};
  return distance == 0 || (distance >= kNear && distance <= kLast);
}

struct Halves {
  uint64_t first = 0;
  uint64_t second = 0;
};

// Adds one line of each half to the half's sum.
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

// Copies and sums two halves of whole pages. `target` is aligned to a line.
// Each step of a sum waits for the previous one, so two interleaved sums take
// no longer than the copy.
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

// Copies and sums pairs of halves as long as enough bytes are left. Returns the
// number of bytes done.
int64_t CopyInHalves(uint32_t& state, char* target, const char* source,
                     int64_t bytes) {
  const int64_t head = BytesToNextLine(target);
  if (bytes - head < 2 * kLeastHalf || !__builtin_cpu_supports("sse4.2") ||
      !LieApart(target, source)) {
    return 0;
  }
  state = CrcRegister(state, source, static_cast<size_t>(head));
  std::memcpy(target, source, static_cast<size_t>(head));
  int64_t done = head;
  while (bytes - done >= 2 * kLeastHalf) {
    const int64_t half = std::min(kMaxHalf, (bytes - done) / 2 / kPage * kPage);
    state = CopyHalves(state, target + done, source + done, half);
    done += 2 * half;
  }
  return done;
}
#endif

}  // namespace

uint32_t CopyAndSum(uint32_t state, char* target, const char* source,
                    int64_t bytes) {
  int64_t at = 0;
#if defined(__x86_64__)
  at = CopyInHalves(state, target, source, bytes);
#endif
  for (; at < bytes; at += kPartBytes) {
    const int64_t part = std::min(kPartBytes, bytes - at);
    state = CrcRegister(state, source + at, static_cast<size_t>(part));
    StreamCopy(target + at, source + at, part);
  }
  return state;
}

}  // namespace belay
