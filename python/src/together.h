// One collective call of the package: its name, and how long it waits for
// missing ranks. All communication of the package goes through contexts.

#ifndef BELAY_PYTHON_TOGETHER_H_
#define BELAY_PYTHON_TOGETHER_H_

#include <pybind11/pybind11.h>

#include <functional>
#include <string>

#include "belay/comm.h"
#include "belay/status.h"
#include "mpi/collective.h"

namespace belay::python {

namespace py = pybind11;

// Borrows the communicator.
struct Call {
  const Comm& comm;
  double deadline_seconds = 600;
  std::string name;    // equal on all ranks in the call, such as "restore"
  std::string object;  // as named in errors: "run/step_7", or ""
};

// Returns a Call on a directory and possibly a step, as passed by the program.
// Does not check them; the code that reads them does.
Call CallOn(const Comm& comm, double deadline_seconds, const std::string& name,
            py::handle directory, py::handle step = py::none());

// Returns the context for one or more functions of mpi/. Agreements are watched
// for missing ranks; other blocking calls are not.
CommContext ContextOf(const Call& call, const char* stage);

// Calls `prepare`, which reads Python objects and must not communicate, and
// agrees with the other ranks on its outcome and that all of them are in the
// same call. Collective. If it throws on any rank, all ranks throw a
// belay.Error with the text of the lowest such rank. On that rank, the Python
// exception is its cause. If a rank does not arrive in time, the process ends,
// as in every collective call of belay.
void PrepareTogether(const Call& call, const std::function<void()>& prepare);

}  // namespace belay::python

#endif  // BELAY_PYTHON_TOGETHER_H_
