// belay's messages as records of Python's logging.

#ifndef BELAY_PYTHON_LOG_H_
#define BELAY_PYTHON_LOG_H_

#include <pybind11/pybind11.h>

#include <string>

namespace belay::python {

namespace py = pybind11;

// Lets belay write only what the logger takes now, so that other messages cost
// nothing. Needs the interpreter's lock.
void FollowLogLevel();

// Logs a warning of this package. What a handler raises is treated as it is for
// messages of the library.
void LogWarning(const std::string& message);

void DefineLog(py::module_& module);

}  // namespace belay::python

#endif  // BELAY_PYTHON_LOG_H_
