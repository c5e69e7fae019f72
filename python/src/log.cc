#include "log.h"

#include <exception>
#include <string>
#include <string_view>

#include "belay/log.h"
#include "errors.h"

namespace belay::python {
namespace {

// The methods that belay._log passed; null before and after the interpreter's
// lifetime.
PyObject* log_method = nullptr;
PyObject* level_method = nullptr;
long followed_level = -1;

// Returns Python's level: 10 is DEBUG, 40 is ERROR.
int PythonLevel(LogLevel level) { return 10 * (1 + static_cast<int>(level)); }

LogLevel LeastAt(long python_level) {
  if (python_level <= PythonLevel(LogLevel::kDebug)) return LogLevel::kDebug;
  if (python_level <= PythonLevel(LogLevel::kInfo)) return LogLevel::kInfo;
  if (python_level <= PythonLevel(LogLevel::kWarning)) {
    return LogLevel::kWarning;
  }
  return LogLevel::kError;
}

// Called by any thread, with or without the lock.
void ToLogger(LogLevel level, std::string_view message) {
  const py::gil_scoped_acquire lock;
  if (log_method == nullptr) return;
  try {
    const auto text = py::reinterpret_steal<py::object>(PyUnicode_DecodeUTF8(
        message.data(), static_cast<Py_ssize_t>(message.size()), "replace"));
    if (!text) throw py::error_already_set();
    const py::handle log = log_method;
    log(PythonLevel(level), "%s", text);
  } catch (py::error_already_set& error) {
    if (!error.matches(PyExc_Exception)) {
      StatusOfCallback(error).IgnoreError();  // it is now pending
      return;
    }
    error.discard_as_unraisable("a handler of belay's log");
  }
}

void StartLog(const py::object& log, const py::object& level) {
  log_method = log.inc_ref().ptr();
  level_method = level.inc_ref().ptr();
  FollowLogLevel();
}

// Threads of belay may outlive the interpreter.
void StopLog() {
  SetLogSink({});
  log_method = nullptr;
  level_method = nullptr;
}

}  // namespace

void LogWarning(const std::string& message) {
  ToLogger(LogLevel::kWarning, message);
}

void FollowLogLevel() {
  if (level_method == nullptr) return;
  long level = 0;
  try {
    const py::handle get_level = level_method;
    level = get_level().cast<long>();
  } catch (const std::exception&) {  // from a broken logger
    return;
  }
  if (level == followed_level) return;
  followed_level = level;
  SetLogSink(ToLogger, LeastAt(level));
}

void DefineLog(py::module_& module) {
  module.def("start_log", &StartLog);
  module.def("stop_log", &StopLog);
}

}  // namespace belay::python
