// Allocation of large memory. Faulting in fresh pages costs more than filling
// them.

#ifndef BELAY_CORE_FLAT_BUFFER_H_
#define BELAY_CORE_FLAT_BUFFER_H_

#include <cstddef>
#include <cstdint>
#include <memory>

namespace belay {

// Asks the system for huge pages for memory that has not been written to yet.
// Ignores small memory. The system may ignore the request.
void UseHugePages(std::byte* data, int64_t size);

// Returns memory with unspecified values, on huge pages if it is large.
std::unique_ptr<std::byte[]> NewBytes(int64_t size);

// Memory that is reused.
struct ReusableBytes {
  std::unique_ptr<std::byte[]> bytes;
  int64_t size = 0;
};

// Makes room for `size` bytes with unspecified values. Replaces memory that is
// too small or more than four times too large. New memory is an eighth larger
// than `size`, as the next call may need slightly more. Size 0 frees all.
void Reserve(ReusableBytes& memory, int64_t size);

}  // namespace belay

#endif  // BELAY_CORE_FLAT_BUFFER_H_
