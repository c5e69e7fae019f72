#include "core/huge_pages.h"

#include <sys/mman.h>

namespace belay {
namespace {

constexpr uintptr_t kHugePage = uintptr_t{2} << 20;
// Below, the pages at both ends that stay small are most of it.
constexpr int64_t kLarge = int64_t{8} << 20;

}  // namespace

void UseHugePages(std::byte* data, int64_t size) {
#ifdef MADV_HUGEPAGE
  if (size < kLarge) return;
  const uintptr_t start = reinterpret_cast<uintptr_t>(data);
  const uintptr_t first = (start + kHugePage - 1) / kHugePage * kHugePage;
  const uintptr_t last = (start + size) / kHugePage * kHugePage;
  madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
#endif
}

std::unique_ptr<std::byte[]> NewBytes(int64_t size) {
  auto bytes = std::make_unique_for_overwrite<std::byte[]>(size);
  UseHugePages(bytes.get(), size);
  return bytes;
}

void Reserve(ReusableBytes& memory, int64_t size) {
  if (size > 0 && size <= memory.size && memory.size / 4 <= size) return;
  memory = {};  // first: never both at once
  if (size == 0) return;
  const int64_t more = size + size / 8;
  memory.bytes = NewBytes(more);
  memory.size = more;
}

}  // namespace belay
