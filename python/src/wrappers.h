// The classes of belay._values, which say how an array is cut over the ranks.

#ifndef BELAY_PYTHON_WRAPPERS_H_
#define BELAY_PYTHON_WRAPPERS_H_

#include <pybind11/pybind11.h>

#include "state.h"

namespace belay::python {

// Whether it is a belay.Piece, LaidOut, Rows, RowsById or PerRank.
bool IsWrapper(py::handle value);

// Returns a copy of a wrapper that holds another value.
py::object Rewrapped(const py::object& wrapper, const py::object& value);

// Returns the rows that were restored.
py::object RowsArray(RowsCell& cell);

}  // namespace belay::python

#endif  // BELAY_PYTHON_WRAPPERS_H_
