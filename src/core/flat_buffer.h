// Large memory. Fresh pages cost more than to fill it.

#ifndef BELAY_CORE_FLAT_BUFFER_H_
#define BELAY_CORE_FLAT_BUFFER_H_

#include <cstddef>
#include <cstdint>
#include <memory>

namespace belay {

// Asks the system for huge pages under memory that nobody has written to yet.
// Small memory is left alone; the request may be ignored.
void UseHugePages(std::byte* data, int64_t size);

// Returns memory with unspecified values, on huge pages if it is large.
std::unique_ptr<std::byte[]> NewBytes(int64_t size);

// Memory that is used again.
struct ReusableBytes {
  std::unique_ptr<std::byte[]> bytes;
  int64_t size = 0;
};

// Makes room for `size` bytes with unspecified values. Replaces memory that is
// too small or over four times too large by an eighth more than is needed, as
// the next need may be slightly larger. Size 0 frees all.
void Reserve(ReusableBytes& memory, int64_t size);

}  // namespace belay

#endif  // BELAY_CORE_FLAT_BUFFER_H_
