// Running out of memory as a status.

#ifndef BELAY_BASE_CATCH_BAD_ALLOC_H_
#define BELAY_BASE_CATCH_BAD_ALLOC_H_

#include <new>
#include <stdexcept>
#include <string_view>

#include "base/text.h"
#include "belay/status.h"

namespace belay {

// Runs work that may need much memory. An exception would leave the other ranks
// waiting for this one. Local.
// Errors: those of the work; ResourceExhausted - there is not enough.
template <typename Work>
auto CatchBadAlloc(std::string_view what, Work work) -> decltype(work()) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(Cat("no memory for ", what));
  } catch (const std::length_error&) {  // more than a container can have
    return absl::ResourceExhaustedError(Cat("no memory for ", what));
  }
}

}  // namespace belay

#endif  // BELAY_BASE_CATCH_BAD_ALLOC_H_
