// The functions of the module, by source file.

#ifndef BELAY_PYTHON_SAVE_RESTORE_H_
#define BELAY_PYTHON_SAVE_RESTORE_H_

#include <pybind11/pybind11.h>

#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "belay/checkpoint_reader.h"
#include "belay/options.h"
#include "state.h"
#include "together.h"

namespace belay::python {

namespace py = pybind11;

void DefineLayouts(py::module_& module);
void DefineResults(py::module_& module);
void DefineSaveRestore(py::module_& module);
void DefineManager(py::module_& module);
void DefineAsync(py::module_& module);
void DefineReader(py::module_& module);
void DefineVariable(py::module_& module);
void DefineCopies(py::module_& module);
void DefineSimulate(py::module_& module);

// Guards local functions that may use HDF5, which only one thread at a time may
// use. Recursive, because their callbacks may call such functions.
std::recursive_mutex& Hdf5Mutex();

// Agrees on which values may be absent, and checks that all ranks pass a state
// or none does (`bound` is then null). If what is restored depends on the keys
// of the step, makes the restore call `rebind` with these keys and the
// interpreter's lock. `rebind` is null without a state. Collective; throws the
// same on all ranks.
void AgreeOnState(const Call& call, BoundState* bound,
                  std::function<void(std::vector<std::string> keys)> rebind,
                  RestoreOptions& options);

// Tells the state which keys were absent, and leaves in `result` only those
// that the program asked for. `asked` is RestoreOptions::missing as given by
// the program.
void TakeAbsent(MismatchPolicy asked, BoundState& bound, RestoreResult& result);

// Passes the Python forms of the step to the state, if any rank needs them.
// Collective.
void TakeForms(const Call& call, const RestoreResult& result,
               BoundState& bound);

// Returns a belay.RestoreResult with the state that was restored.
py::object RestoreResultOf(const RestoreResult& result,
                           const py::object& state);

}  // namespace belay::python

#endif  // BELAY_PYTHON_SAVE_RESTORE_H_
