// Converts names of a checkpoint, such as keys, to Python's str.

#ifndef BELAY_PYTHON_NAMES_H_
#define BELAY_PYTHON_NAMES_H_

#include <pybind11/pybind11.h>

#include <string>
#include <string_view>

namespace belay::python {

namespace py = pybind11;

// Returns a name as str. A C++ program may use names that are not UTF-8: each
// invalid byte becomes a lone surrogate, as in os.fsdecode. Needs the
// interpreter's lock.
py::str NameOf(std::string_view bytes);

// Returns the bytes of a name; the inverse of NameOf. Needs the interpreter's
// lock.
// Throws: UnicodeEncodeError - another lone surrogate.
std::string BytesOf(py::handle name);

}  // namespace belay::python

#endif  // BELAY_PYTHON_NAMES_H_
