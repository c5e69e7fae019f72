// The functions of the module, one for each source file.

#ifndef BELAY_PYTHON_SAVE_RESTORE_H_
#define BELAY_PYTHON_SAVE_RESTORE_H_

#include <pybind11/pybind11.h>

#include <mutex>

#include "belay/options.h"

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

// Returns a belay.RestoreResult with the state that was restored.
py::object RestoreResultOf(const RestoreResult& result,
                           const py::object& state);

}  // namespace belay::python

#endif  // BELAY_PYTHON_SAVE_RESTORE_H_
