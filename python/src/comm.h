// From a communicator of mpi4py to one of belay.

#ifndef BELAY_PYTHON_COMM_H_
#define BELAY_PYTHON_COMM_H_

#include <pybind11/pybind11.h>

#include "belay/comm.h"
#include "belay/save_restore.h"
#include "seen_state.h"

namespace belay::python {

namespace py = pybind11;

// What is kept for a communicator of the program until it is freed. Destroyed
// with the interpreter's lock.
struct KeptComm {
  Comm comm;
  PlanCache cache;
  SavedState saved;
  bool is_in_use = false;
};

// Marks a communicator as in use during a call: only one thread at a time may
// use it, and a callback of the call may not. Needs the interpreter's lock.
class CommUse {
 public:
  // Throws a StatusError if it is in use already. `flag` must outlive this.
  explicit CommUse(bool& flag);
  CommUse(const CommUse&) = delete;
  CommUse& operator=(const CommUse&) = delete;
  ~CommUse() { flag_ = false; }

 private:
  bool& flag_;
};

// Returns what is kept for a communicator, which must outlive the result. The
// first call for a communicator is collective: it waits so long for the others.
KeptComm& KeptCommOf(py::handle comm, double deadline_seconds = 600);

// Returns a duplicate of its own. Collective.
Comm DuplicateOf(py::handle comm, double deadline_seconds = 600);

}  // namespace belay::python

#endif  // BELAY_PYTHON_COMM_H_
