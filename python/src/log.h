// Sends belay's messages to Python's logging.

#ifndef BELAY_PYTHON_LOG_H_
#define BELAY_PYTHON_LOG_H_

#include <pybind11/pybind11.h>

#include <string>

namespace belay::python {

namespace py = pybind11;

// Makes belay emit only messages of the logger's current level, so that other
// messages cost nothing. Needs the interpreter's lock.
void FollowLogLevel();

// Logs a warning of this package. Exceptions of logging handlers are treated as
// for messages of the library.
void LogWarning(const std::string& message);

void DefineLog(py::module_& module);

}  // namespace belay::python

#endif  // BELAY_PYTHON_LOG_H_
