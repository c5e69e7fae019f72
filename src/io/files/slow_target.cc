#include "io/files/slow_target.h"

#include "geometry/runs.h"

#ifdef __x86_64__
#include <cpuid.h>
#endif

namespace belay {
namespace {

// Targets less than that ahead of the source are slow, as measured.
constexpr int64_t kSlowBytes = 32;

#ifdef __x86_64__
// AMD's Zen 3 and Zen 4.
bool IsOfFamily25() {
  constexpr unsigned kFamily = 25;
  constexpr unsigned kFastShortRepMov = 1U << 4;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (!__builtin_cpu_is("amd") || __get_cpuid(1, &a, &b, &c, &d) == 0 ||
      (a >> 8 & 0xF) + (a >> 20 & 0xFF) != kFamily) {
    return false;
  }
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 &&
         (d & kFastShortRepMov) != 0;
}
#endif

}  // namespace

bool HasSlowTargets() {
#ifdef __x86_64__
  static const bool is_one = IsOfFamily25();
  return is_one;
#else
  return false;
#endif
}

bool IsSlowTarget(const ShardMemory& memory, const Box& box,
                  const Extent& extent) {
  const Run run = FirstRun(box, memory.box, extent.box);
  const int64_t size = memory.element_size;
  // The copy of less than a page is soon over.
  if (run.length * size < kPlaces) return false;
  const auto address = reinterpret_cast<uintptr_t>(memory.data + run.a * size);
  const int64_t offset = extent.offset + run.b * size;
  const int64_t ahead =
      static_cast<int64_t>(address % kPlaces) - offset % kPlaces;
  const int64_t further = (ahead + kPlaces) % kPlaces;
  return further > 0 && further < kSlowBytes;
}

}  // namespace belay
