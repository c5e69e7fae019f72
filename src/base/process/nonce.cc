#include "base/process/nonce.h"

#include <random>

namespace belay {

uint64_t NewNonce() {
  std::random_device device;
  return (uint64_t{device()} << 32) | device();
}

}  // namespace belay
