// How a Status becomes a code and a text of this thread.

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

// Sets belay_error_message of this thread, and returns the code. Never throws.
int Fail(int code, std::string_view message) noexcept;

// The same for a Status; BELAY_OK if it is OK.
int CodeOf(const Status& status) noexcept;

// Calls a function that returns a Status, and returns its code. No exception
// passes. Local, unless the function is not.
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

// A pointer that the program must give.
struct Needed {
  std::string_view name;
  const void* pointer;
};

// As Call, for a function that needs these pointers.
template <typename Function>
int Call(std::initializer_list<Needed> all, Function function) noexcept {
  return Call([&]() -> Status {
    for (const Needed& needed : all) {
      if (needed.pointer == nullptr) return NullArgument(needed.name);
    }
    return function();
  });
}

// Does nothing if the pointer for a result is null.
template <typename T, typename U>
void Give(T* result, const U& value) {
  if (result != nullptr) *result = static_cast<T>(value);
}

// Errors name axes, boxes and shapes as C has them: from 0, the slowest axis
// first. Fortran counts from 1, and its first axis is the fastest.

// Returns a message with boxes as sections, such as (1:4, 3:8), and with shapes
// and axes in the order of Fortran. What else stands in quotes stays as it is.
std::string InAxesOfFortran(std::string_view message);

}  // namespace belay::c

#endif  // BELAY_C_ERROR_H_
