// One collective call of the package: its name, and how long it waits for ranks
// that do not make it. All communication of the package goes through contexts.

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
  std::string name;  // equal on all ranks that make it, such as "restore"
  std::string
      object;  // what it is about, as errors name it: "run/step_7", or ""
};

// The same, about a directory and perhaps a step of the program. What is wrong
// with these is left to whoever reads them.
Call CallOn(const Comm& comm, double deadline_seconds, const std::string& name,
            py::handle directory, py::handle step = py::none());

// What the functions of mpi/ take, for one or some of them. Agreements are
// watched; calls that block otherwise are not.
CommContext ContextOf(const Call& call, const char* stage);

// Calls `prepare`, which reads Python objects and must not communicate, and
// agrees with the other ranks on its outcome, and that they are in the same
// call. Collective. If it throws on any rank, all ranks throw a belay.Error
// with the text of the lowest such rank. On that rank the exception of Python
// is its cause. If a rank does not arrive in time, the process ends, as in
// every collective call of belay.
void PrepareTogether(const Call& call, const std::function<void()>& prepare);

}  // namespace belay::python

#endif  // BELAY_PYTHON_TOGETHER_H_
