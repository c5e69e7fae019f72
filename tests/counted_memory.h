// Replaces operator new in the program that includes this: it counts, and fails
// where a test asks for it. For one file of a program.

#ifndef BELAY_TESTS_COUNTED_MEMORY_H_
#define BELAY_TESTS_COUNTED_MEMORY_H_

#include <malloc.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace belay {

struct CountedMemory {
  int64_t calls = 0;
  int64_t bytes = 0;  // that all calls have asked for
  // Of what is in use.
  int64_t live_bytes = 0;
  int64_t most_live_bytes = 0;
  // Calls for at least `large` bytes. The one of them that is number `failing`
  // fails; 0 for none.
  int64_t large = 4096;
  int64_t large_calls = 0;
  int64_t failing = 0;

  // Counts large calls from 0 on. Local.
  void Arm(int64_t number) {
    large_calls = 0;
    failing = number;
  }
};

inline constinit CountedMemory counted_memory;

}  // namespace belay

// Not inlined: GCC 12 would take new and free for a mismatched pair.
[[gnu::noinline]] void* operator new(std::size_t size) {
  belay::CountedMemory& counted = belay::counted_memory;
  const auto bytes = static_cast<int64_t>(size);
  ++counted.calls;
  counted.bytes += bytes;
  const bool fails =
      bytes >= counted.large && ++counted.large_calls == counted.failing;
  void* const made = fails ? nullptr : std::malloc(std::max<size_t>(size, 1));
  if (made == nullptr) throw std::bad_alloc();
  counted.live_bytes += static_cast<int64_t>(malloc_usable_size(made));
  counted.most_live_bytes =
      std::max(counted.most_live_bytes, counted.live_bytes);
  return made;
}
[[gnu::noinline]] void operator delete(void* made) noexcept {
  belay::counted_memory.live_bytes -=
      static_cast<int64_t>(malloc_usable_size(made));
  std::free(made);
}
[[gnu::noinline]] void operator delete(void* made, std::size_t) noexcept {
  operator delete(made);
}

#endif  // BELAY_TESTS_COUNTED_MEMORY_H_
