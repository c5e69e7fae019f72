// Raises errors of belay and of Python as belay.Error, with the same code and
// text on all ranks.

#ifndef BELAY_PYTHON_ERRORS_H_
#define BELAY_PYTHON_ERRORS_H_

#include <pybind11/pybind11.h>

#include <exception>
#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "belay/comm.h"
#include "belay/status.h"

namespace belay::python {

namespace py = pybind11;

// Carries a Status through Python's C++ layers; becomes a belay.Error.
class StatusError : public std::exception {
 public:
  explicit StatusError(Status status)
      : status_(std::move(status)), text_(status_.message()) {}

  const Status& status() const { return status_; }
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  Status status_;
  std::string text_;
};

// Throws a StatusError with code InvalidArgument.
[[noreturn]] void ThrowInvalid(const std::string& text);

// Throws a StatusError unless the status is OK.
void ThrowIfError(const Status& status);

// Returns the value, or throws a StatusError.
template <typename T>
T ValueOrThrow(StatusOr<T> value) {
  ThrowIfError(value.status());
  return *std::move(value);
}

// Calls a function without the interpreter's lock.
template <typename F>
auto WithoutLock(F function) {
  const py::gil_scoped_release unlock;
  return function();
}

// The same for a function that returns a Status or a StatusOr: throws a
// StatusError or returns the value.
template <typename F>
auto Unlocked(F function) {
  auto result = WithoutLock(std::move(function));
  if constexpr (std::is_convertible_v<decltype(result), Status>) {
    ThrowIfError(std::move(result));
  } else {
    ThrowIfError(result.status());
    return *std::move(result);
  }
}

// Returns the option deadline_seconds, or its default if the option is not a
// number.
double DeadlineOf(const py::dict& options);

// Converts a Python exception to a Status.
Status StatusOf(const py::error_already_set& error);

// Returns a value as shown in errors: its repr if that is short, else its type.
// Local.
std::string Shown(py::handle value);

// Returns whether a value raised this exception and the exception does not name
// the value's key yet.
bool MayNameKey(const py::error_already_set& error);

// Raises a belay.Error that begins with `where`, with the exception as its
// cause.
[[noreturn]] void RaiseNaming(const std::string& where,
                              const py::error_already_set& error);

// The same for an exception of a callback. If its text becomes part of an error
// of this rank, the exception becomes the cause of that error.
Status StatusOfCallback(const py::error_already_set& error);

// Returns a belay.Error without raising it. The status must not be OK.
py::object ErrorOf(const Status& status);

// Returns an attribute of a module, for a static reference. It is never freed,
// because static objects are destroyed after the interpreter.
const py::object& Imported(const char* module, const char* name);

// Makes pybind11 translate StatusErrors to belay.Errors.
void RegisterErrors();

}  // namespace belay::python

#endif  // BELAY_PYTHON_ERRORS_H_
