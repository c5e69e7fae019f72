// Between NumPy's arrays and belay's: dtypes, and views of their memory.

#ifndef BELAY_PYTHON_ARRAYS_H_
#define BELAY_PYTHON_ARRAYS_H_

#include <pybind11/numpy.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "belay/arrays/dtype.h"
#include "belay/arrays/fields.h"
#include "belay/arrays/memory.h"
#include "belay/arrays/tensor.h"

namespace belay::python {

namespace py = pybind11;

// Whether the program reads its arrays for belay or has them filled.
enum class Purpose : uint8_t { kSave, kRestore };

// "save" or "restore".
std::string Verb(Purpose purpose);

// An array of the program.
struct GivenArray {
  py::array array;
  // If NumPy has no such dtype and the array holds its bits.
  std::optional<DType> dtype = std::nullopt;
};

// An array of the program, and where belay finds its elements: in `memory`,
// which is `given` or, if belay cannot use that, a dense copy of it.
struct BoundArray {
  py::array given;
  py::array memory;
  DType dtype = DType::kU8;
  // In elements; empty if they are dense and row-major.
  std::vector<int64_t> strides;
  // For a save, which looks up where dense elements are: they may move.
  Purpose purpose = Purpose::kRestore;
  void* data = nullptr;
  int64_t size = 0;

  bool is_copy() const { return !memory.is(given); }
  // Copies what was restored into the array of the program.
  void CopyBack() const;
};

// Whether it is of a subclass of numpy.ndarray.
bool IsSubclass(const py::array& array);

// Returns the array, ready for belay. `key` is for errors. Throws a StatusError
// for a dtype that belay does not store, and on restore for an array that
// cannot be written.
BoundArray BindArray(Purpose purpose, const std::string& key,
                     const GivenArray& given);

// Returns the elements of the array, which must stay where it is, for a State.
// `layout` says which of them are ghost cells.
Memory MemoryOf(const BoundArray& array, MemoryLayout layout = {});

// Returns belay's dtype; nothing if there is none. The byte order is ignored.
std::optional<DType> DTypeOfNumpy(const py::dtype& dtype);

// Returns NumPy's dtype; for floats that NumPy does not have float32, which has
// all their values.
py::dtype NumpyOf(DType dtype);

// Returns the fields of a structured dtype. Throws a StatusError if one of them
// is not stored.
std::shared_ptr<const StructLayout> FieldsOfNumpy(const std::string& key,
                                                  const py::dtype& dtype);

// Returns the structured dtype of packed fields, such as "id:i64 x:f64[3]".
py::dtype NumpyOfFields(const std::string& fields);

// Returns structs of which the array has the bytes, along its last axis.
py::object StructsOf(const py::object& bytes, const std::string& fields);

// Returns an array that owns the elements of the tensor. No copy is made but of
// floats that NumPy does not have.
py::array ArrayOf(Tensor tensor);

// Returns an array of `shape` that owns these bytes; no copy is made.
py::array ArrayOfBytes(const py::dtype& dtype,
                       const std::vector<py::ssize_t>& shape,
                       std::vector<char> bytes);

// Returns the lengths of an array, or a sequence of whole numbers, as a Shape.
Shape ShapeOf(const py::array& array);
Shape ShapeOf(py::handle numbers);
py::tuple TupleOf(const Shape& shape);

}  // namespace belay::python

#endif  // BELAY_PYTHON_ARRAYS_H_
