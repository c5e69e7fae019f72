// Calling the user's functions: what they throw becomes a status.

#ifndef BELAY_BASE_CATCH_EXCEPTIONS_H_
#define BELAY_BASE_CATCH_EXCEPTIONS_H_

#include <exception>
#include <new>
#include <type_traits>

#include "base/text.h"
#include "belay/status.h"

namespace belay {

// Calls `function`, which returns a Status, a StatusOr or a plain value; the
// last becomes a StatusOr. Local.
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

#endif  // BELAY_BASE_CATCH_EXCEPTIONS_H_
