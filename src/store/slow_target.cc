#include "store/slow_target.h"

#include <cstdint>

#ifdef __x86_64__
#include <cpuid.h>
#endif

#include "base/huge_pages.h"

namespace belay {
namespace {

// Targets less than that ahead of the source are slow, as measured.
constexpr int64_t kSlowBytes = 32;

bool IsSlow(const char* target, int64_t offset) {
  const auto address = reinterpret_cast<uintptr_t>(target);
  const int64_t ahead = (static_cast<int64_t>(address % kPageBytes) -
                         offset % kPageBytes + kPageBytes) %
                        kPageBytes;
  return ahead > 0 && ahead < kSlowBytes;
}

}  // namespace

bool HasSlowTargets() {
#ifdef __x86_64__
  constexpr unsigned kLeaf = 7;
  constexpr unsigned kFastShortRepMov = 1U << 4;
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __builtin_cpu_is("amd") &&
         __get_cpuid_count(kLeaf, 0, &a, &b, &c, &d) &&
         (d & kFastShortRepMov) != 0;
#else
  return false;
#endif
}

bool IsSlowTarget(const ShardMemory& memory, const Box& box,
                  const Extent& extent) {
  static const bool has_slow_targets = HasSlowTargets();
  if (!has_slow_targets) return false;
  int64_t slow = 0;
  int64_t fast = 0;
  ForEachSegment(memory, box, extent,
                 [&](const char* data, int64_t offset, int64_t bytes) {
                   // The copy of less than a page is soon over.
                   const bool is_slow =
                       bytes >= kPageBytes && IsSlow(data, offset);
                   (is_slow ? slow : fast) += bytes;
                 });
  return slow > fast;
}

}  // namespace belay
