// Converts the arguments of sharded variable calls.

#include <array>
#include <limits>
#include <utility>

#include "arrays.h"
#include "callbacks.h"
#include "errors.h"
#include "variable.h"

namespace belay::python {
namespace {

// Returns an integer, clipped to 64 bits; the limits are past every axis.
int64_t Clipped(py::handle number) {
  const auto whole =
      py::reinterpret_steal<py::object>(PyNumber_Index(number.ptr()));
  if (!whole) throw py::error_already_set();
  int overflow = 0;
  const int64_t value = PyLong_AsLongLongAndOverflow(whole.ptr(), &overflow);
  if (overflow == 0) return value;
  return overflow > 0 ? std::numeric_limits<int64_t>::max()
                      : std::numeric_limits<int64_t>::min();
}

SliceNumber SliceNumberOf(py::handle number) {
  if (number.is_none()) return {};
  return Clipped(number);
}

bool IsMask(py::handle item) {
  if (PyBool_Check(item.ptr())) return false;
  const py::object array = py::module_::import("numpy").attr("asarray")(item);
  return array.attr("dtype").attr("kind").cast<std::string>() == "b";
}

bool IsNumpyBool(py::handle item) {
  static const py::object& type = Imported("numpy", "bool_");
  return py::isinstance(item, type);
}

void AddItem(py::handle item, GivenIndex& given) {
  PyObject* const object = item.ptr();
  if (item.is_none()) {
    given.index.push_back(NewAxis{});
  } else if (object == Py_Ellipsis) {
    given.index.push_back(Ellipsis{});
  } else if (PySlice_Check(object)) {
    given.index.push_back(Slice{SliceNumberOf(item.attr("start")),
                                SliceNumberOf(item.attr("stop")),
                                SliceNumberOf(item.attr("step"))});
  } else if (IsNumpyBool(item)) {
    ThrowInvalid("index: a single bool is not a mask (found " +
                 std::string(py::repr(item)) + ")");
  } else if (PyIndex_Check(object) && !PyBool_Check(object) &&
             !py::isinstance<py::array>(item)) {
    given.index.push_back(Clipped(item));
  } else if (IsMask(item)) {
    given.index.push_back(&given.masks.emplace_back(TensorOf(item)));
  } else {
    ThrowInvalid(
        "index: need whole numbers, slices, ..., None, or one mask (found " +
        std::string(py::repr(item)) + ")");
  }
}

template <typename T>
T Field(py::handle object, const char* name) {
  return object.attr(name).cast<T>();
}

}  // namespace

GivenIndex IndexOf(py::handle given) {
  GivenIndex index;
  if (!PyTuple_Check(given.ptr())) {
    AddItem(given, index);
    return index;
  }
  for (const py::handle item : given) AddItem(item, index);
  return index;
}

Tensor TensorOf(py::handle given, std::optional<DType> dtype) {
  const py::module_ numpy = py::module_::import("numpy");
  const py::array array = dtype
                              ? py::module_::import("belay._variable")
                                    .attr("converted")(given, NumpyOf(*dtype))
                                    .cast<py::array>()
                              : numpy.attr("asarray")(given).cast<py::array>();
  const BoundArray bound = BindArray(Purpose::kSave, "value", {array});
  const py::array dense = numpy.attr("ascontiguousarray")(bound.memory);
  return Tensor::CopyOf(bound.dtype, ShapeOf(array), dense.data());
}

Tensor IndicesOf(py::handle given) {
  const py::module_ numpy = py::module_::import("numpy");
  py::array array = numpy.attr("asarray")(given);
  const char kind = array.dtype().kind();
  const bool is_whole = kind == 'i' || kind == 'u' || array.size() == 0;
  const bool is_i32 = kind == 'i' && array.itemsize() == 4;
  if (is_whole && !is_i32) array = array.attr("astype")("int64");
  return TensorOf(array);
}

Partitioner PartitionerOf(py::handle given) {
  const py::module_ module = py::module_::import("belay._variable");
  const auto is = [&](const char* name) {
    return py::isinstance(given, module.attr(name));
  };
  if (is("FixedShards")) {
    return FixedShards(Field<int64_t>(given, "num_shards"));
  }
  if (is("MinSize")) {
    return MinSize(Field<int64_t>(given, "min_shard_bytes"),
                   Field<int64_t>(given, "max_shards"));
  }
  if (is("MaxSize")) {
    return MaxSize(Field<int64_t>(given, "max_shard_bytes"),
                   Field<std::optional<int64_t>>(given, "max_shards"));
  }
  if (PyCallable_Check(given.ptr()) == 0) {
    ThrowInvalid(
        "partitioner: need FixedShards, MinSize, MaxSize or a "
        "function (found " +
        std::string(py::repr(given)) + ")");
  }
  const Callback call(py::reinterpret_borrow<py::object>(given));
  return [call](const Shape& shape, DType dtype, int axis) {
    return call.Get<Shape>(
        [](const py::object& parts) { return ShapeOf(parts); },
        [&] { return py::make_tuple(TupleOf(shape), NumpyOf(dtype), axis); });
  };
}

UpdateOp UpdateOpNamed(py::handle name) {
  constexpr std::array kAll = {
      UpdateOp::kUpdate, UpdateOp::kAdd, UpdateOp::kSub, UpdateOp::kMul,
      UpdateOp::kDiv,    UpdateOp::kMin, UpdateOp::kMax};
  const std::string text = py::str(name);
  for (const UpdateOp op : kAll) {
    if (UpdateOpName(op) == text) return op;
  }
  ThrowInvalid("op: need update, add, sub, mul, div, min or max (found " +
               std::string(py::repr(name)) + ")");
}

}  // namespace belay::python
