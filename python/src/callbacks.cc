#include "callbacks.h"

#include <string>

namespace belay::python {

std::function<void(int64_t, int64_t)> ReadProgress(OptionReader& reader) {
  const py::object given = reader.Take("progress");
  if (!given) return nullptr;
  if (PyCallable_Check(given.ptr()) == 0) {
    ThrowInvalid("option progress: need a function (found " +
                 std::string(py::repr(given)) + ")");
  }
  return [call = Callback(given)](int64_t done, int64_t total) {
    const Status status = call(done, total);
    if (!status.ok()) throw StatusError(status);
  };
}

}  // namespace belay::python
