// Functions of the program that belay calls (callbacks).

#ifndef BELAY_PYTHON_CALLBACKS_H_
#define BELAY_PYTHON_CALLBACKS_H_

#include <pybind11/pybind11.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "belay/status.h"
#include "errors.h"
#include "options.h"
#include "together.h"

namespace belay::python {

// A function of the program. May be called, copied and destroyed by any thread,
// with or without the interpreter's lock.
class Callback {
 public:
  explicit Callback(py::object function)
      : function_(new py::object(std::move(function)), [](py::object* held) {
          if (!Py_IsInitialized()) return;  // MPI may outlive Python
          const py::gil_scoped_acquire lock;
          delete held;
        }) {}

  // Calls the function with the lock. An exception becomes the status, and the
  // cause of this rank's belay.Error.
  template <typename... Args>
  Status operator()(const Args&... args) const {
    return Get<bool>([](const py::object&) { return true; },
                     [&] { return py::make_tuple(args...); })
        .status();
  }

  // The same with a result: `arguments` makes the tuple of arguments, and
  // `convert` converts the result, both with the lock.
  template <typename T, typename Convert, typename Arguments>
  StatusOr<T> Get(Convert convert, Arguments arguments) const {
    const py::gil_scoped_acquire lock;
    try {
      return convert((*function_)(*arguments()));
    } catch (const py::error_already_set& error) {
      return StatusOfCallback(error);
    } catch (const py::cast_error& error) {
      return absl::InvalidArgumentError(error.what());
    }
  }

 private:
  std::shared_ptr<py::object> function_;
};

// Discards the error of a callback. An error that is not an Exception, such as
// a KeyboardInterrupt, stays pending.
void ForgetCallbackError();

// Throws the pending exception, if there is one. PrepareTogether does this as
// well.
void ThrowPendingExit();

// Returns an error of a collective call, the same on all ranks, with the code
// of the failed callback, if one has failed. Collective.
Status WithCodeOfCallback(const Call& call, const Status& status);

// Like `Unlocked`, for a collective call with callbacks: their errors keep
// their code, and a pending exception is thrown. Must be the last collective
// step of the call.
template <typename F>
auto UnlockedWithCallbacks(const Call& call, F function) {
  ForgetCallbackError();
  auto result = WithoutLock(std::move(function));
  const Status status = result.ok() ? absl::OkStatus()
                                    : WithCodeOfCallback(call, result.status());
  ThrowPendingExit();
  ThrowIfError(status);
  return *std::move(result);
}

// Returns the value of an option that is a function; null if it is not given.
// Throws a StatusError for anything else.
py::object TakeFunction(OptionReader& reader, const char* name);

}  // namespace belay::python

#endif  // BELAY_PYTHON_CALLBACKS_H_
