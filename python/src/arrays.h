// Converts between arrays of NumPy and of belay: dtypes, and views of their
// memory.

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

// Whether belay reads the program's arrays or fills them.
enum class Purpose : uint8_t { kSave, kRestore };

// "save" or "restore".
std::string Verb(Purpose purpose);

// An array of the program.
struct GivenArray {
  py::array array;
  // Set if NumPy has no such dtype and the array holds its bits.
  std::optional<DType> dtype = std::nullopt;
};

// An array of the program, and the array `memory` whose elements belay uses:
// `given` itself or, if belay cannot use that, a dense copy of it.
struct BoundArray {
  py::array given;
  py::array memory;
  DType dtype = DType::kU8;
  // In elements; empty if they are dense and row-major.
  std::vector<int64_t> strides;
  // Dense elements may move; a save looks up their address again.
  Purpose purpose = Purpose::kRestore;
  void* data = nullptr;
  int64_t size = 0;

  bool is_copy() const { return !memory.is(given); }
  // Copies restored values into the program's array.
  void CopyBack() const;
};

// Returns whether the array is of a subclass of numpy.ndarray.
bool IsSubclass(const py::array& array);

// Returns the array, ready for belay. `key` is for errors. Throws a StatusError
// for a dtype that belay does not store, or, for a restore, for an array that
// is not writable.
BoundArray BindArray(Purpose purpose, const std::string& key,
                     const GivenArray& given);

// Returns the elements of the array, which must not move, for a State. `layout`
// says which of them are ghost cells.
Memory MemoryOf(const BoundArray& array, MemoryLayout layout = {});

// Returns belay's dtype; nothing if there is none. The byte order is ignored.
std::optional<DType> DTypeOfNumpy(const py::dtype& dtype);

// Returns NumPy's dtype. For floats that NumPy does not have, this is float32,
// which can represent all their values.
py::dtype NumpyOf(DType dtype);

// Returns the fields of a structured dtype. Throws a StatusError if one of them
// is not stored.
std::shared_ptr<const StructLayout> FieldsOfNumpy(const std::string& key,
                                                  const py::dtype& dtype);

// Returns the structured dtype of packed fields, such as "id:i64 x:f64[3]".
py::dtype NumpyOfFields(const std::string& fields);

// Returns an array of structs from their bytes, which are along the last axis.
py::object StructsOf(const py::object& bytes, const std::string& fields);

// Returns an array that owns the elements of the tensor. Copies only floats
// that NumPy does not have.
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
