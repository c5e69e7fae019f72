#include "base/fingerprint.h"

#include <xxhash.h>

namespace belay {

uint64_t Fingerprint(std::string_view bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

}  // namespace belay
