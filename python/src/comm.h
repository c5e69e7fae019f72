// Converts communicators of mpi4py to belay's.

#ifndef BELAY_PYTHON_COMM_H_
#define BELAY_PYTHON_COMM_H_

#include <pybind11/pybind11.h>

#include "belay/comm.h"
#include "belay/save_restore.h"
#include "seen_state.h"

namespace belay::python {

namespace py = pybind11;

// Data that is kept for a communicator of the program until that is freed.
// Destroyed with the interpreter's lock.
struct KeptComm {
  Comm comm;
  PlanCache cache;
  SavedState saved;
  bool is_in_use = false;
};

// Marks a communicator as in use during a call: only one thread at a time may
// use it, and callbacks of the call must not. Needs the interpreter's lock.
class CommUse {
 public:
  // Throws a StatusError if the communicator is already in use. `flag` must
  // outlive this.
  explicit CommUse(bool& flag);
  CommUse(const CommUse&) = delete;
  CommUse& operator=(const CommUse&) = delete;
  ~CommUse() { flag_ = false; }

 private:
  bool& flag_;
};

// Returns the data kept for a communicator, which must outlive the result. The
// first call for a communicator is collective and waits at most
// `deadline_seconds` for the other ranks.
KeptComm& KeptCommOf(py::handle comm, double deadline_seconds = 600);

// Returns a separate duplicate. Collective.
Comm DuplicateOf(py::handle comm, double deadline_seconds = 600);

}  // namespace belay::python

#endif  // BELAY_PYTHON_COMM_H_
