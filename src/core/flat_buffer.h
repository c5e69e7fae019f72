// Large memory, and the values of a state as one buffer.

#ifndef BELAY_CORE_FLAT_BUFFER_H_
#define BELAY_CORE_FLAT_BUFFER_H_

#include <cstddef>
#include <cstdint>
#include <memory>

namespace belay {

// Large memory: fresh pages cost more than the bytes that are put there.

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

// Makes sure that there are `size` bytes. Their values are unspecified. Memory
// that is too small is replaced by an eighth more than is needed, because the
// next need may be slightly larger; so is memory of more than four times that.
// None is left for a size of 0.
void Reserve(ReusableBytes& memory, int64_t size);

}  // namespace belay

#endif  // BELAY_CORE_FLAT_BUFFER_H_
