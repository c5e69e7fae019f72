// Fingerprints: whether bytes in different processes are the same.

#ifndef BELAY_BASE_FINGERPRINT_H_
#define BELAY_BASE_FINGERPRINT_H_

#include <cstdint>
#include <string_view>

namespace belay {

// Returns 64 bits that are the same in every process for the same bytes. Never
// written to disk. Local.
uint64_t Fingerprint(std::string_view bytes);

}  // namespace belay

#endif  // BELAY_BASE_FINGERPRINT_H_
