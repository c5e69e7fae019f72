// Converts exceptions of the program's functions and memory shortages to
// statuses.

#ifndef BELAY_CORE_CATCH_EXCEPTIONS_H_
#define BELAY_CORE_CATCH_EXCEPTIONS_H_

#include <exception>
#include <new>
#include <stdexcept>

#include "core/text.h"

namespace belay {

// Runs work that may need much memory. An uncaught exception would leave the
// other ranks waiting for this one.
// Errors: those of the work; ResourceExhausted - too little memory.
template <typename Work>
auto CatchBadAlloc(std::string_view what, Work work) -> decltype(work()) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(Cat("no memory for ", what));
  } catch (const std::length_error&) {  // exceeds a container's maximum
    return absl::ResourceExhaustedError(Cat("no memory for ", what));
  }
}

// Calls a user function that returns a Status, a StatusOr or a plain value. A
// plain value is returned as a StatusOr.
// Errors: its own; ResourceExhausted - it found no memory; Internal - another
//   exception, with its text.
template <typename Function>
auto CatchExceptions(Function function) {
  using Result = decltype(function());
  constexpr bool kHasStatus = std::is_constructible_v<Result, Status>;
  using Guard = std::conditional_t<kHasStatus, Result, StatusOr<Result>>;
  try {
    return Guard(function());
  } catch (const std::bad_alloc&) {
    return Guard(absl::ResourceExhaustedError("exception: out of memory"));
  } catch (const std::exception& thrown) {
    return Guard(absl::InternalError(Cat("exception: ", thrown.what())));
  } catch (...) {
    return Guard(absl::InternalError("exception of a type without text"));
  }
}

}  // namespace belay

#endif  // BELAY_CORE_CATCH_EXCEPTIONS_H_
