#include "arrays.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

#include "errors.h"
#include "small_floats.h"

namespace belay::python {
namespace {

struct NumericType {
  DType dtype;
  const char* numpy;  // its name in NumPy
};

// Type numbers in NumPy's C API that are the same on all systems.
enum TypeNumber {
  kFloat = 11,
  kDouble = 12,
  kComplexFloat = 14,
  kComplexDouble = 15,
  kHalf = 23
};

// Dtypes of NumPy itself.
constexpr std::array kNumericTypes = {NumericType{DType::kF16, "float16"},
                                      NumericType{DType::kF32, "float32"},
                                      NumericType{DType::kF64, "float64"},
                                      NumericType{DType::kI8, "int8"},
                                      NumericType{DType::kI16, "int16"},
                                      NumericType{DType::kI32, "int32"},
                                      NumericType{DType::kI64, "int64"},
                                      NumericType{DType::kU8, "uint8"},
                                      NumericType{DType::kU16, "uint16"},
                                      NumericType{DType::kU32, "uint32"},
                                      NumericType{DType::kU64, "uint64"},
                                      NumericType{DType::kBool, "bool"},
                                      NumericType{DType::kC64, "complex64"},
                                      NumericType{DType::kC128, "complex128"}};

std::string TextOf(py::handle object) { return py::str(object); }

// True if no two elements overlap in memory, so that the array can be written:
// in ascending order, each stride is at least the extent of all smaller ones.
bool HasOwnPlaces(const py::array& array) {
  if ((array.flags() & py::array::c_style) != 0) return true;
  std::vector<std::pair<py::ssize_t, py::ssize_t>> axes;
  for (py::ssize_t axis = 0; axis < array.ndim(); ++axis) {
    if (array.shape(axis) == 0) return true;
    if (array.shape(axis) == 1) continue;
    axes.emplace_back(std::abs(array.strides(axis)), array.shape(axis));
  }
  std::sort(axes.begin(), axes.end());
  py::ssize_t end = array.itemsize();
  for (const auto& [stride, length] : axes) {
    if (stride < end) return false;
    end += (length - 1) * stride;
  }
  return true;
}

// Returns the strides in elements, if belay can use them unchanged.
std::optional<std::vector<int64_t>> ElementStrides(const py::array& array) {
  constexpr int kAligned = py::detail::npy_api::NPY_ARRAY_ALIGNED_;
  if ((array.flags() & kAligned) == 0) return std::nullopt;
  if ((array.flags() & py::array::c_style) != 0) return std::vector<int64_t>();
  if (!HasOwnPlaces(array)) return std::nullopt;
  std::vector<int64_t> strides;
  for (py::ssize_t axis = 0; axis < array.ndim(); ++axis) {
    const py::ssize_t stride =
        array.shape(axis) == 1 ? array.itemsize() : array.strides(axis);
    if (stride <= 0 || stride % array.itemsize() != 0) return std::nullopt;
    strides.push_back(stride / array.itemsize());
  }
  return strides;
}

bool IsNative(const py::dtype& dtype) {
  const char order = dtype.byteorder();
  if (order == '|' && dtype.has_fields()) {
    return dtype.attr("isnative").cast<bool>();
  }
  return order != '>';  // belay runs on little-endian machines
}

void CheckArray(Purpose purpose, const std::string& key,
                const py::array& array) {
  static const py::object& masked_array = Imported("numpy.ma", "MaskedArray");
  const auto refuse = [&](const char* cause) {
    ThrowInvalid(Verb(purpose) + " \"" + key + "\": " + cause);
  };
  if (IsSubclass(array) && py::isinstance(array, masked_array)) {
    refuse(
        "a masked array would lose its mask; add its data and its mask as two "
        "arrays");
  }
  if (purpose == Purpose::kSave) return;
  if (!array.writeable()) {
    refuse("the array is read-only, so it cannot be filled");
  }
  if (!HasOwnPlaces(array)) {
    refuse("elements of the array share memory, so it cannot be filled");
  }
}

// Adds the fields of a dtype; fields of nested dtypes have dotted names.
void AddFields(const std::string& key, const std::string& prefix,
               const py::dtype& dtype, int64_t offset,
               std::vector<StructField>& all) {
  const py::dict described = dtype.attr("fields");
  for (const py::handle name : dtype.attr("names")) {
    const py::tuple field = described[name];
    const py::dtype type = field[0].cast<py::dtype>();
    const py::dtype base = type.attr("base").cast<py::dtype>();
    const std::string full = prefix + TextOf(name);
    const int64_t at = offset + field[1].cast<int64_t>();
    const Shape shape = ShapeOf(py::object(type.attr("shape")));
    if (base.has_fields() && shape.empty()) {
      AddFields(key, full + ".", base, at, all);
      continue;
    }
    const std::optional<DType> known = DTypeOfNumpy(base);
    if (!known || !IsNative(base)) {
      ThrowInvalid("list \"" + key + "\": belay cannot store the field \"" +
                   full + "\" of dtype " + TextOf(type));
    }
    all.push_back({full, *known, shape, at});
  }
}

constexpr ArrayAccess kMovedArray = {
    .view = [](void* object) -> ArrayAccess::View {
      const auto& array = *static_cast<const BoundArray*>(object);
      return {array.data, array.dtype, Shape{array.size}};
    }};

// Sets the address of the elements.
BoundArray Located(BoundArray array) {
  array.data = const_cast<void*>(array.memory.data());
  array.size = static_cast<int64_t>(array.memory.size());
  return array;
}

}  // namespace

bool IsSubclass(const py::array& array) {
  return Py_TYPE(array.ptr()) != py::detail::npy_api::get().PyArray_Type_;
}

std::string Verb(Purpose purpose) {
  return purpose == Purpose::kSave ? "save" : "restore";
}

void BoundArray::CopyBack() const {
  if (!is_copy()) return;
  const py::object target = given;
  target[py::ellipsis()] = memory;
}

BoundArray BindArray(Purpose purpose, const std::string& key,
                     const GivenArray& given) {
  const py::array& array = given.array;
  const std::optional<DType> dtype =
      given.dtype ? given.dtype : DTypeOfNumpy(array.dtype());
  if (!dtype) {
    const bool has_fields = array.dtype().has_fields();
    ThrowInvalid(Verb(purpose) + " \"" + key +
                 "\": belay has no dtype for NumPy's " + TextOf(array.dtype()) +
                 (has_fields ? "; use belay.Rows for the structs of a rank, or "
                               "an array for each field"
                             : ""));
  }
  CheckArray(purpose, key, array);
  BoundArray bound{.given = array,
                   .memory = array,
                   .dtype = *dtype,
                   .strides = {},
                   .purpose = purpose};
  std::optional<std::vector<int64_t>> strides;
  if (IsNative(array.dtype())) strides = ElementStrides(array);
  if (strides) {
    bound.strides = *std::move(strides);
    return Located(std::move(bound));
  }
  const py::object native = array.dtype().attr("newbyteorder")("=");
  const py::module_ numpy = py::module_::import("numpy");
  bound.memory = numpy
                     .attr("array")(array, native, py::arg("order") = "C",
                                    py::arg("copy") = true)
                     .cast<py::array>();
  return Located(std::move(bound));
}

Memory MemoryOf(const BoundArray& array, MemoryLayout layout) {
  void* const data = array.data;
  const bool is_dense = array.strides.empty();
  Memory memory(data, array.dtype, is_dense ? array.size : -1,
                {data, static_cast<uint64_t>(array.dtype)});
  if (is_dense && layout.before.empty()) {
    if (array.purpose == Purpose::kSave) {
      memory.object = const_cast<BoundArray*>(&array);
      memory.access = &kMovedArray;
    }
    return memory;
  }
  layout.strides = array.strides;
  memory.layout = std::make_shared<const MemoryLayout>(std::move(layout));
  return memory;
}

std::optional<DType> DTypeOfNumpy(const py::dtype& dtype) {
  const char kind = dtype.kind();
  const auto size = static_cast<int64_t>(dtype.itemsize());
  if (dtype.has_fields()) return std::nullopt;
  switch (kind) {
    case 'b':
      return DType::kBool;
    case 'i':
      return size == 1   ? DType::kI8
             : size == 2 ? DType::kI16
             : size == 4 ? DType::kI32
                         : DType::kI64;
    case 'u':
      return size == 1   ? DType::kU8
             : size == 2 ? DType::kU16
             : size == 4 ? DType::kU32
                         : DType::kU64;
    default:
      break;
  }
  switch (dtype.num()) {
    case kHalf:
      return DType::kF16;
    case kFloat:
      return DType::kF32;
    case kDouble:
      return DType::kF64;
    case kComplexFloat:
      return DType::kC64;
    case kComplexDouble:
      return DType::kC128;
    default:
      break;
  }
  return std::nullopt;
}

py::dtype NumpyOf(DType dtype) {
  if (IsMissingInNumpy(dtype)) return py::dtype(std::string("float32"));
  for (const NumericType& type : kNumericTypes) {
    if (type.dtype == dtype) return py::dtype(std::string(type.numpy));
  }
  throw StatusError(absl::InternalError("a string has no dtype of NumPy"));
}

std::shared_ptr<const StructLayout> FieldsOfNumpy(const std::string& key,
                                                  const py::dtype& dtype) {
  std::vector<StructField> all;
  AddFields(key, "", dtype, 0, all);
  return fields::LayoutOf(std::move(all),
                          static_cast<int64_t>(dtype.itemsize()));
}

py::dtype NumpyOfFields(const std::string& fields) {
  py::list described;
  const py::list parts = py::str(fields).attr("split")();
  for (const py::handle part : parts) {
    const auto colon = py::tuple(part.attr("rpartition")(":"));
    const py::list form = colon[2].attr("rstrip")("]").attr("split")("[");
    const DType dtype = ValueOrThrow(ParseDType(TextOf(form[0])));
    py::list shape;
    if (form.size() > 1) {
      for (const py::handle length : form[1].attr("split")(",")) {
        shape.append(py::int_(py::reinterpret_borrow<py::object>(length)));
      }
    }
    // The array may hold the bits of a dtype that NumPy does not have.
    const py::dtype known =
        IsMissingInNumpy(dtype)
            ? NumpyOf(DTypeSize(dtype) == 2 ? DType::kU16 : DType::kU8)
            : NumpyOf(dtype);
    described.append(py::make_tuple(colon[0], known, py::tuple(shape)));
  }
  return py::dtype::from_args(described);
}

py::object StructsOf(const py::object& bytes, const std::string& fields) {
  const py::tuple shape = bytes.attr("shape");
  const py::object outer = shape[py::slice(0, -1, 1)];
  return bytes.attr("reshape")(-1)
      .attr("view")(NumpyOfFields(fields))
      .attr("reshape")(outer);
}

py::array ArrayOf(Tensor tensor) {
  if (IsMissingInNumpy(tensor.dtype())) return ArrayOf(Widened(tensor));
  const py::dtype dtype = NumpyOf(tensor.dtype());
  const std::vector<py::ssize_t> shape(tensor.shape().begin(),
                                       tensor.shape().end());
  auto owned = std::make_unique<Tensor>(std::move(tensor));
  const void* const data = owned->data();
  const py::capsule owner(owned.release(), [](void* object) {
    delete static_cast<Tensor*>(object);
  });
  return py::array(dtype, shape, data, owner);
}

py::array ArrayOfBytes(const py::dtype& dtype,
                       const std::vector<py::ssize_t>& shape,
                       std::vector<char> bytes) {
  auto owned = std::make_unique<std::vector<char>>(std::move(bytes));
  const void* const data = owned->data();
  const py::capsule owner(owned.release(), [](void* object) {
    delete static_cast<std::vector<char>*>(object);
  });
  return py::array(dtype, shape, data, owner);
}

Shape ShapeOf(const py::array& array) {
  return Shape(array.shape(), array.shape() + array.ndim());
}

Shape ShapeOf(py::handle numbers) {
  Shape shape;
  if (!PyTuple_CheckExact(numbers.ptr())) {
    for (const py::handle number : numbers) {
      shape.push_back(number.cast<int64_t>());
    }
    return shape;
  }
  // A fast path: most shapes are tuples of ints, and there may be thousands.
  const Py_ssize_t axes = PyTuple_GET_SIZE(numbers.ptr());
  for (Py_ssize_t axis = 0; axis < axes; ++axis) {
    PyObject* const number = PyTuple_GET_ITEM(numbers.ptr(), axis);
    if (PyLong_CheckExact(number)) {
      shape.push_back(PyLong_AsLongLong(number));
      if (shape.back() == -1 && PyErr_Occurred() != nullptr) {
        throw py::error_already_set();
      }
    } else {
      shape.push_back(py::handle(number).cast<int64_t>());
    }
  }
  return shape;
}

py::tuple TupleOf(const Shape& shape) {
  py::tuple tuple(shape.size());
  for (size_t i = 0; i < shape.size(); ++i) tuple[i] = shape[i];
  return tuple;
}

}  // namespace belay::python
