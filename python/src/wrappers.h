// The classes of belay._values, which say how an array is partitioned over the
// ranks.

#ifndef BELAY_PYTHON_WRAPPERS_H_
#define BELAY_PYTHON_WRAPPERS_H_

#include <pybind11/pybind11.h>

#include "state.h"

namespace belay::python {

// The classes of belay._values.
struct Wrappers {
  py::object piece, pieces, laid_out, flat_range, rows, rows_by_id, per_rank,
      from_rank0, if_stored;
};

const Wrappers& AllWrappers();

// The attributes of a belay.Piece. A state may have thousands of pieces, so the
// names are created only once, and for objects of exactly this class the
// attributes are read from __dict__.
struct PieceAttributes {
  explicit PieceAttributes(py::handle piece);

  py::object array, global_shape, offset, ghost, fill_ghosts, periodic, replica;
};

// Returns whether the value is one of these wrappers.
bool IsWrapper(py::handle value);

// Returns a copy of a wrapper that holds another value.
py::object Rewrapped(const py::object& wrapper, const py::object& value);

// Returns the restored rows in a new array.
py::object RowsArray(RowsCell& cell);

}  // namespace belay::python

#endif  // BELAY_PYTHON_WRAPPERS_H_
