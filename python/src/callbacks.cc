#include "callbacks.h"

#include <string>

namespace belay::python {

py::object TakeFunction(OptionReader& reader, const char* name) {
  py::object given = reader.Take(name);
  if (given && PyCallable_Check(given.ptr()) == 0) {
    ThrowInvalid("option " + std::string(name) + ": need a function (found " +
                 std::string(py::repr(given)) + ")");
  }
  return given;
}

void OptionReader::Read(const char* name,
                        std::function<void(int64_t, int64_t)>& progress) {
  const py::object given = TakeFunction(*this, name);
  if (!given) return;
  progress = [call = Callback(given)](int64_t done, int64_t total) {
    const Status status = call(done, total);
    if (!status.ok()) throw StatusError(status);
  };
}

}  // namespace belay::python
