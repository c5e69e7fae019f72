#include "core/element_conversion.h"

#include <cstring>

namespace belay {
namespace {

// --- Every pair, by way of a wide type: double, int64, uint64 or complex ---

template <typename T>
concept SmallFloat =
    std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16> ||
    std::is_same_v<T, Float8E4M3> || std::is_same_v<T, Float8E5M2>;
template <typename T>
inline constexpr bool kIsComplex = false;
template <typename Part>
inline constexpr bool kIsComplex<std::complex<Part>> = true;

template <typename T>
auto Widen(T value) {
  if constexpr (SmallFloat<T>) {
    return ValueOfFormat<kFormatOf<T>>(value.bits);
  } else if constexpr (kIsComplex<T>) {
    return std::complex<double>(value);
  } else if constexpr (std::is_floating_point_v<T>) {
    return static_cast<double>(value);
  } else if constexpr (std::is_same_v<T, uint64_t>) {
    return value;
  } else {
    return static_cast<int64_t>(value);
  }
}

// Returns a double that rounds to 50 bits or fewer exactly as the value does.
// If a double cannot hold the value, a one at the end represents the bits that
// are cut off.
double ForRounding(double value) { return value; }
double ForRounding(uint64_t value) {
  constexpr uint64_t kCut = (uint64_t{1} << 11) - 1;
  if (value >> 53 == 0 || (value & kCut) == 0) {
    return static_cast<double>(value);
  }
  return static_cast<double>((value & ~kCut) | (kCut + 1));
}
double ForRounding(int64_t value) {
  const auto magnitude = static_cast<uint64_t>(value);
  return value < 0 ? -ForRounding(0 - magnitude) : ForRounding(magnitude);
}

template <typename T>
T CutTo(double value) {
  using Limits = std::numeric_limits<T>;
  if (std::isnan(value)) return 0;
  if (value <= static_cast<double>(Limits::min())) return Limits::min();
  if (value >= static_cast<double>(Limits::max())) return Limits::max();
  return static_cast<T>(value);
}

template <typename T, typename Integer>
T StopAt(Integer value) {
  using Limits = std::numeric_limits<T>;
  if (std::in_range<T>(value)) return static_cast<T>(value);
  return std::cmp_less(value, 0) ? Limits::min() : Limits::max();
}

template <typename T, typename Wide>
T Narrow(Wide value) {
  if constexpr (kIsComplex<T>) {
    using Part = typename T::value_type;
    if constexpr (kIsComplex<Wide>) {
      return T(static_cast<Part>(value.real()),
               static_cast<Part>(value.imag()));
    } else {
      return T(static_cast<Part>(value));
    }
  } else if constexpr (kIsComplex<Wide>) {
    return T{};  // refused by IsConvertible
  } else if constexpr (SmallFloat<T>) {
    return T{static_cast<decltype(T::bits)>(
        RoundToFormat<kFormatOf<T>>(ForRounding(value)))};
  } else if constexpr (std::is_same_v<T, bool>) {
    return value != Wide{0};
  } else if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(value);
  } else if constexpr (std::is_same_v<Wide, double>) {
    return CutTo<T>(value);
  } else {
    return StopAt<T>(value);
  }
}

template <typename... Ts, typename Visit>
void VisitOneOf(DType dtype, const Visit& visit) {
  (void)((DTypeOf<Ts>() == dtype && (visit(Ts{}), true)) || ...);
}

// Calls `visit(T{})` with the dtype's element type. Requires a dtype other than
// string.
template <typename Visit>
void VisitElement(DType dtype, const Visit& visit) {
  VisitOneOf<Float16, BFloat16, float, double, Float8E4M3, Float8E5M2, int8_t,
             int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t,
             bool, std::complex<float>, std::complex<double>>(dtype, visit);
}

// Any byte except 0 is true, and reading such a byte as a bool would be
// undefined.
template <typename T>
T Load(const std::byte* source, int64_t index) {
  if constexpr (std::is_same_v<T, bool>) {
    return source[index] != std::byte{0};
  } else {
    T value;
    std::memcpy(&value, source + index * int64_t{sizeof(T)}, sizeof(T));
    return value;
  }
}

template <typename T>
void Store(T value, std::byte* target, int64_t index) {
  std::memcpy(target + index * int64_t{sizeof(T)}, &value, sizeof(T));
}

template <typename Wide>
void NarrowAll(const Wide* values, DType to, std::byte* target, int64_t count) {
  VisitElement(to, [&](auto element) {
    using T = decltype(element);
    for (int64_t i = 0; i < count; ++i) Store(Narrow<T>(values[i]), target, i);
  });
}

using LossCounts = std::array<int64_t, kNumLosses>;

// AVX2 processes twice as many elements at a time, packs f16 and bf16, and
// counts.
bool HasAvx2() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx2") != 0;
#else
  return false;
#endif
}

#if defined(__x86_64__)
#define BELAY_AVX2 __attribute__((target("avx2")))
#else
#define BELAY_AVX2
#endif

template <typename T, typename Wide>
[[gnu::always_inline]] inline LossCounts CountLoop(const Wide* values,
                                                   int64_t count) {
  LossFlags sum;
  for (int64_t i = 0; i < count; ++i) {
    const LossFlags flags = LossIn<T>(values[i]);
    sum.too_large += flags.too_large;
    sum.not_finite += flags.not_finite;
    sum.changed += flags.changed;
  }
  return {sum.too_large, sum.not_finite, sum.changed};
}

template <typename T, typename Wide>
BELAY_AVX2 LossCounts CountLoopAvx2(const Wide* values, int64_t count) {
  return CountLoop<T>(values, count);
}

// Separate from the loop of NarrowAll, which has branches.
template <typename Wide>
LossCounts CountLost(const Wide* values, DType to, int64_t count) {
  LossCounts counts = {};
  VisitElement(to, [&](auto element) {
    using T = decltype(element);
    counts = HasAvx2() ? CountLoopAvx2<T>(values, count)
                       : CountLoop<T>(values, count);
  });
  return counts;
}

// Requires that at least one value has this loss.
template <typename Wide>
int64_t FirstLost(const Wide* values, DType to, size_t loss) {
  int64_t i = 0;
  while (CountLost(values + i, to, 1)[loss] == 0) ++i;
  return i;
}

constexpr int64_t kWideBlock = 256;  // fits the L1 cache

// Calls `visit(first, length, wide)` for each block of elements.
template <typename Visit>
void ForEachWideBlock(DType from, const std::byte* source, int64_t count,
                      Visit&& visit) {
  VisitElement(from, [&](auto element) {
    using T = decltype(element);
    std::array<decltype(Widen(T{})), kWideBlock> wide;
    for (int64_t first = 0; first < count; first += kWideBlock) {
      const int64_t length = std::min(kWideBlock, count - first);
      for (int64_t i = 0; i < length; ++i) {
        wide[i] = Widen(Load<T>(source, first + i));
      }
      visit(first, length, wide.data());
    }
  });
}

// Adds the losses of a block whose elements are at `source`.
template <typename Wide>
void AddLost(DType from, const std::byte* source, DType to, const Wide* values,
             int64_t count, ConversionLosses& losses) {
  const LossCounts lost = CountLost(values, to, count);
  for (size_t loss = 0; loss < kNumLosses; ++loss) {
    if (lost[loss] == 0) continue;
    if (losses.counts[loss] == 0) {
      const int64_t size = DTypeSize(from);
      std::memcpy(losses.examples[loss].data(),
                  source + FirstLost(values, to, loss) * size, size);
    }
    losses.counts[loss] += lost[loss];
  }
}

void ConvertAnyPair(DType from, const std::byte* source, DType to,
                    std::byte* target, int64_t count,
                    ConversionLosses* losses) {
  ForEachWideBlock(from, source, count,
                   [&](int64_t first, int64_t length, const auto* wide) {
                     NarrowAll(wide, to, target + first * DTypeSize(to),
                               length);
                     if (losses == nullptr) return;
                     AddLost(from, source + first * DTypeSize(from), to, wide,
                             length, *losses);
                   });
}

// --- The common pairs, in loops that compilers turn into vector code ---

constexpr int32_t kInfinityOfF32 = 0x7f800000;

BFloat16 F32ToBF16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto magnitude = static_cast<int32_t>(bits & 0x7fffffff);
  const uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  const uint32_t nan = (bits >> 31 << 15) | 0x7fc0;
  return {static_cast<uint16_t>(magnitude > kInfinityOfF32 ? nan : rounded)};
}

float BF16ToF32(BFloat16 value) {
  return std::bit_cast<float>(uint32_t{value.bits} << 16);
}

Float16 F32ToF16(float value) {
  constexpr int32_t kSmallest = (127 - 14) << 23;  // normal f16
  constexpr int32_t kTooLarge = (127 + 16) << 23;
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto magnitude = static_cast<int32_t>(bits & 0x7fffffff);
  const int32_t normal =
      (magnitude - ((127 - 15) << 23) + 0xfff + ((magnitude >> 13) & 1)) >> 13;
  // The sum has the unit of subnormal f16, so the addition rounds.
  const int32_t subnormal =
      std::bit_cast<int32_t>(std::bit_cast<float>(magnitude) + 0.5f) -
      std::bit_cast<int32_t>(0.5f);
  const int32_t special = magnitude > kInfinityOfF32 ? 0x7e00 : 0x7c00;
  int32_t result = magnitude < kSmallest ? subnormal : normal;
  result = magnitude >= kTooLarge ? special : result;
  return {
      static_cast<uint16_t>(result | static_cast<int32_t>(bits >> 31 << 15))};
}

float F16ToF32(Float16 value) {
  constexpr int32_t kSmallest = 1 << 23;  // normal f16, as below
  constexpr int32_t kInfinity = 0x1f << 23;
  constexpr int32_t kRebias = (127 - 15) << 23;
  const int32_t magnitude = (value.bits & 0x7fff) << 13;
  const int32_t normal = magnitude + kRebias;
  const int32_t special = magnitude + 2 * kRebias;
  // Adds a leading one, then subtracts it again.
  const int32_t subnormal =
      std::bit_cast<int32_t>(std::bit_cast<float>(normal + kSmallest) -
                             std::bit_cast<float>(kRebias + kSmallest));
  int32_t result = magnitude < kSmallest ? subnormal : normal;
  result = magnitude >= kInfinity ? special : result;
  const uint32_t sign = uint32_t{value.bits} >> 15 << 31;
  return std::bit_cast<float>(static_cast<uint32_t>(result) | sign);
}

template <typename From, typename To, To (*kConvert)(From)>
[[gnu::always_inline]] inline void ConvertAll(const std::byte* source,
                                              std::byte* target,
                                              int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    Store(kConvert(Load<From>(source, i)), target, i);
  }
}

// Returns true if any element is too large for To, infinite, NaN, or becomes 0.
template <typename From, typename To>
[[gnu::always_inline]] inline bool MayLose(const std::byte* source,
                                           int64_t count) {
  if constexpr (IsLossy(FindNumberRange(DTypeOf<From>()),
                        FindNumberRange(DTypeOf<To>()))) {
    // The bits, as integers, are in the same order as the numbers.
    using Bits = std::conditional_t<sizeof(From) == 8, int64_t, int32_t>;
    constexpr DType kTo = DTypeOf<To>();
    constexpr Bits kFirst =
        std::bit_cast<Bits>(static_cast<From>(FirstTooLarge(kTo)));
    constexpr Bits kVanishes =
        std::bit_cast<Bits>(static_cast<From>(LastVanishing(kTo)));
    Bits found = 0;
    for (int64_t i = 0; i < count; ++i) {
      const Bits magnitude =
          Load<Bits>(source, i) & std::numeric_limits<Bits>::max();
      found |=
          (magnitude >= kFirst) | ((magnitude > 0) & (magnitude <= kVanishes));
    }
    return found != 0;
  }
  return false;
}

float F64ToF32(double value) { return static_cast<float>(value); }
double F32ToF64(float value) { return value; }

struct CommonPair {
  DType from;
  DType to;
  void (*convert)(const std::byte* source, std::byte* target, int64_t count);
  // If it returns false, no element is lost.
  bool (*may_lose)(const std::byte* source, int64_t count);
};

template <typename From, typename To, To (*kConvert)(From)>
struct Plain {
  static void Convert(const std::byte* from, std::byte* to, int64_t count) {
    ConvertAll<From, To, kConvert>(from, to, count);
  }
  static bool AnyLost(const std::byte* from, int64_t count) {
    return MayLose<From, To>(from, count);
  }
};

template <typename From, typename To, To (*kConvert)(From)>
struct WithAvx2 {
  BELAY_AVX2 static void Convert(const std::byte* from, std::byte* to,
                                 int64_t count) {
    ConvertAll<From, To, kConvert>(from, to, count);
  }
  BELAY_AVX2 static bool AnyLost(const std::byte* from, int64_t count) {
    return MayLose<From, To>(from, count);
  }
};

template <typename From, typename To, To (*kConvert)(From)>
CommonPair MakePair() {
  using Slow = Plain<From, To, kConvert>;
  using Fast = WithAvx2<From, To, kConvert>;
  const bool fast = HasAvx2();
  return {.from = DTypeOf<From>(),
          .to = DTypeOf<To>(),
          .convert = fast ? Fast::Convert : Slow::Convert,
          .may_lose = fast ? Fast::AnyLost : Slow::AnyLost};
}

const CommonPair* FindCommonPair(DType from, DType to) {
  static const CommonPair kCommonPairs[] = {
      MakePair<float, BFloat16, F32ToBF16>(),
      MakePair<BFloat16, float, BF16ToF32>(),
      MakePair<float, Float16, F32ToF16>(),
      MakePair<Float16, float, F16ToF32>(),
      MakePair<double, float, F64ToF32>(),
      MakePair<float, double, F32ToF64>(),
  };
  for (const CommonPair& pair : kCommonPairs) {
    if (pair.from == from && pair.to == to) return &pair;
  }
  return nullptr;
}

void ConvertCommonPair(const CommonPair& pair, const std::byte* source,
                       std::byte* target, int64_t count,
                       ConversionLosses* losses) {
  if (losses == nullptr) return pair.convert(source, target, count);
  constexpr int64_t kBlock = 2048;  // fits the L1 cache, as does kWideBlock
  for (int64_t first = 0; first < count; first += kBlock) {
    const int64_t length = std::min(kBlock, count - first);
    const std::byte* block = source + first * DTypeSize(pair.from);
    pair.convert(block, target + first * DTypeSize(pair.to), length);
    if (!pair.may_lose(block, length)) continue;
    ForEachWideBlock(pair.from, block, length,
                     [&](int64_t at, int64_t part, const auto* wide) {
                       AddLost(pair.from, block + at * DTypeSize(pair.from),
                               pair.to, wide, part, *losses);
                     });
  }
}

}  // namespace

bool IsConvertible(DType from, DType to) {
  if (from == to) return true;
  if (from == DType::kString || to == DType::kString) return false;
  return FindKind(from) != DTypeKind::kComplex ||
         FindKind(to) == DTypeKind::kComplex;
}

bool IsLossyConversion(DType from, DType to) {
  return from != to && IsLossy(FindNumberRange(from), FindNumberRange(to));
}

void ConvertElements(DType from, const void* source, DType to, void* target,
                     int64_t count, ConversionLosses* losses) {
  if (count == 0) return;  // the pointers may be null
  if (losses != nullptr) losses->values += count;
  if (!IsLossyConversion(from, to)) losses = nullptr;
  const auto* in = static_cast<const std::byte*>(source);
  auto* out = static_cast<std::byte*>(target);
  if (from == to) {
    std::memcpy(out, in, count * DTypeSize(to));
    return;
  }
  if (const CommonPair* pair = FindCommonPair(from, to)) {
    return ConvertCommonPair(*pair, in, out, count, losses);
  }
  ConvertAnyPair(from, in, to, out, count, losses);
}

}  // namespace belay

#undef BELAY_AVX2
