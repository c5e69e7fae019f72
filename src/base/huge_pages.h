// Large memory that is filled once: fresh pages cost more than the bytes.

#ifndef BELAY_BASE_HUGE_PAGES_H_
#define BELAY_BASE_HUGE_PAGES_H_

#include <cstddef>
#include <cstdint>
#include <memory>

namespace belay {

// Asks the system for huge pages under memory that nobody has written to yet.
// Small memory is left alone; the request may be ignored. Local.
void UseHugePages(std::byte* data, int64_t size);

// Returns memory with unspecified values, on huge pages if it is large. Local.
std::unique_ptr<std::byte[]> NewBytes(int64_t size);

}  // namespace belay

#endif  // BELAY_BASE_HUGE_PAGES_H_
