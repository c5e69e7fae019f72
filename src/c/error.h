// Converts a Status to a code and the error message of this thread.

#ifndef BELAY_C_ERROR_H_
#define BELAY_C_ERROR_H_

#include <exception>
#include <initializer_list>
#include <new>
#include <string>
#include <string_view>

#include "belay/belay_c.h"
#include "belay/status.h"
#include "core/program_words.h"

namespace belay::c {

// Sets this thread's belay_error_message, and returns the code. Never throws.
int Fail(int code, std::string_view message) noexcept;

// Does the same for a Status. Returns BELAY_OK if it is OK.
int CodeOf(const Status& status) noexcept;

// Calls a function that returns a Status, and returns its code. Exceptions
// become errors. Local, unless the function is not.
template <typename Function>
int Call(Function function) noexcept {
  const LanguageOfCall c(Language::kC);
  try {
    return CodeOf(function());
  } catch (const std::bad_alloc&) {
    return Fail(BELAY_RESOURCE_EXHAUSTED, "not enough memory");
  } catch (const std::exception& thrown) {
    return Fail(BELAY_INTERNAL, thrown.what());
  } catch (...) {
    return Fail(BELAY_INTERNAL, "exception of a type without text");
  }
}

// Returns an InvalidArgument for an argument that must not be null.
Status NullArgument(std::string_view name);

// A pointer argument that must not be null.
struct Needed {
  std::string_view name;
  const void* pointer;
};

// Does the same, but first checks that none of these pointers is null.
template <typename Function>
int Call(std::initializer_list<Needed> all, Function function) noexcept {
  return Call([&]() -> Status {
    for (const Needed& needed : all) {
      if (needed.pointer == nullptr) return NullArgument(needed.name);
    }
    return function();
  });
}

// Stores a result, unless the pointer for it is null.
template <typename T, typename U>
void Give(T* result, const U& value) {
  if (result != nullptr) *result = static_cast<T>(value);
}

// Error messages name axes, boxes and shapes as in C: counted from 0, slowest
// axis first. Fortran counts from 1, fastest axis first.

// Returns a message with boxes as sections, such as (1:4, 3:8), and with shapes
// and axes in Fortran order. Does not change other quoted text.
std::string InAxesOfFortran(std::string_view message);

}  // namespace belay::c

#endif  // BELAY_C_ERROR_H_
