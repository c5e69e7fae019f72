#include "names.h"

namespace belay::python {

py::str NameOf(std::string_view bytes) {
  PyObject* const name = PyUnicode_DecodeUTF8(
      bytes.data(), static_cast<Py_ssize_t>(bytes.size()), "surrogateescape");
  if (name == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::str>(name);
}

std::string BytesOf(py::handle name) {
  const py::str text(name);
  PyObject* const bytes =
      PyUnicode_AsEncodedString(text.ptr(), "utf-8", "surrogateescape");
  if (bytes == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::bytes>(bytes);
}

}  // namespace belay::python
