// The functions of the module, one for each source file.

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

// For local functions that may use HDF5, which one thread at a time may. Their
// callbacks may call such functions.
std::recursive_mutex& Hdf5Mutex();

// Agrees on which values may be absent, and that all ranks pass a state or none
// does, which is null then. Has `rebind` called with the keys of the step, and
// with the interpreter's lock, where how much is restored depends on them; null
// without a state. Collective; throws the same on all ranks.
void AgreeOnState(const Call& call, BoundState* bound,
                  std::function<void(std::vector<std::string> keys)> rebind,
                  RestoreOptions& options);

// Lets the state know what was absent, and leaves in `result` what the program
// asked for. `asked` is RestoreOptions::missing as given.
void TakeAbsent(MismatchPolicy asked, BoundState& bound, RestoreResult& result);

// Lets the state know what the step says of Python forms, where any rank needs
// it. Collective.
void TakeForms(const Call& call, const RestoreResult& result,
               BoundState& bound);

// Returns a belay.RestoreResult with the state that was restored.
py::object RestoreResultOf(const RestoreResult& result,
                           const py::object& state);

}  // namespace belay::python

#endif  // BELAY_PYTHON_SAVE_RESTORE_H_
