// Numbers that tell one writer from all others.

#ifndef BELAY_BASE_PROCESS_NONCE_H_
#define BELAY_BASE_PROCESS_NONCE_H_

#include <cstdint>

namespace belay {

// Returns a random number that nobody else has. Local.
uint64_t NewNonce();

}  // namespace belay

#endif  // BELAY_BASE_PROCESS_NONCE_H_
