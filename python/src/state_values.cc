// Binds single values, and arrays that every rank holds.

#include <utility>

#include "errors.h"
#include "state.h"

namespace belay::python {
namespace {

bool IsNumpyScalar(py::handle value) {
  static const py::object& generic = Imported("numpy", "generic");
  return py::isinstance(value, generic);
}

std::string Utf8Of(py::handle text) {
  Py_ssize_t size = 0;
  const char* const bytes = PyUnicode_AsUTF8AndSize(text.ptr(), &size);
  if (bytes == nullptr) throw py::error_already_set();
  return std::string(bytes, static_cast<size_t>(size));
}

}  // namespace

template <typename T>
void BoundState::AddScalar(const std::string& key, T value,
                           const PerRankOptions* per_rank) {
  T& cell = NewCell(std::move(value));
  const auto add = [&](auto& held) {
    if (per_rank != nullptr) {
      state_.AddPerRank(key, held, *per_rank);
    } else {
      state_.Add(key, held);
    }
  };
  if constexpr (std::is_same_v<T, TextCell>) {
    add(cell.text);
  } else if constexpr (std::is_same_v<T, BytesCell>) {
    add(cell.bytes);
  } else {
    add(cell);
  }
}

bool BoundState::BindScalar(const std::string& key, py::handle value,
                            const PerRankOptions* per_rank) {
  PyObject* const object = value.ptr();
  if (value.is_none()) {
    BindNone(key, per_rank != nullptr);
  } else if (PyUnicode_Check(object)) {
    AddScalar(key, TextCell{Utf8Of(value)}, per_rank);
  } else if (PyBytes_Check(object)) {
    const auto bytes =
        std::string_view(py::reinterpret_borrow<py::bytes>(value));
    AddScalar(key, BytesCell{{bytes.begin(), bytes.end()}}, per_rank);
  } else if (IsNumpyScalar(value)) {
    BindNumpyScalar(key, value, per_rank);
  } else if (PyBool_Check(object)) {
    AddScalar(key, object == Py_True, per_rank);
  } else if (PyLong_Check(object)) {
    int overflow = 0;
    const int64_t number = PyLong_AsLongLongAndOverflow(object, &overflow);
    if (overflow != 0) {
      Refuse(key, "the int has more than 64 bits; store it as a str");
    }
    AddScalar(key, number, per_rank);
  } else if (PyFloat_Check(object)) {
    AddScalar(key, PyFloat_AsDouble(object), per_rank);
  } else if (PyComplex_Check(object)) {
    const Py_complex number = PyComplex_AsCComplex(object);
    AddScalar(key, std::complex<double>(number.real, number.imag), per_rank);
  } else {
    return false;
  }
  return true;
}

void BoundState::BindNumpyScalar(const std::string& key, py::handle value,
                                 const PerRankOptions* per_rank) {
  const py::array array =
      py::module_::import("numpy").attr("array")(value).cast<py::array>();
  if (per_rank != nullptr) return BindArrayValue(key, {array}, per_rank);
  const BoundArray bound = BindArray(Purpose::kSave, key, {array});
  const NumpyScalarCell& cell = NewCell(NumpyScalarCell{bound.memory});
  void* const data = const_cast<void*>(cell.array.data());
  state_.AddReplicated(key, {}, Memory(data, bound.dtype, 1, {}));
}

void BoundState::BindNone(const std::string& key, bool is_per_rank) {
  if (is_per_rank) Refuse(key, "belay cannot store None for each rank");
  ValueTree none;
  none.typestr = kNoneTypestr;
  state_.Add(key, NewCell(std::move(none)));
}

void BoundState::BindArrayValue(const std::string& key, const GivenArray& given,
                                const PerRankOptions* per_rank) {
  if (per_rank == nullptr) {
    const BoundArray& bound = NewCell(BindArray(purpose_, key, given));
    state_.AddReplicated(key, ShapeOf(bound.memory), MemoryOf(bound));
    return;
  }
  GivenArray rows = given;
  const bool is_scalar = rows.array.ndim() == 0;
  if (is_scalar) rows.array = rows.array.attr("reshape")(1).cast<py::array>();
  BindRows(key, rows,
           {.is_per_rank = true, .other_ranks = per_rank->other_ranks});
  std::get<RowsCell>(cells_.back()).is_scalar = is_scalar;
}

py::object ObjectOf(ValueTree& tree) {
  const bool is_single = tree.items.empty();
  if (tree.is_none() && is_single) return py::none();
  if (tree.text && is_single) {
    const py::bytes bytes(*tree.text);
    PyObject* const text = PyUnicode_DecodeUTF8(
        tree.text->data(), static_cast<Py_ssize_t>(tree.text->size()), nullptr);
    if (text != nullptr) return py::reinterpret_steal<py::object>(text);
    PyErr_Clear();
    return bytes;
  }
  if (tree.tensor && is_single) {
    const py::object array = ArrayOf(*std::move(tree.tensor));
    if (array.attr("ndim").cast<int>() > 0) return array;
    return array.attr("item")();
  }
  if (tree.is_list()) {
    py::list list;
    for (ValueTree& item : tree.items) list.append(ObjectOf(item));
    return list;
  }
  py::dict dict;
  // What is stored under the key itself, beside values below it.
  if (tree.text || tree.tensor || tree.is_none()) {
    ValueTree own{.typestr = std::move(tree.typestr),
                  .tensor = std::move(tree.tensor),
                  .text = std::move(tree.text)};
    dict[py::str("")] = ObjectOf(own);
  }
  for (ValueTree& item : tree.items) {
    dict[py::str(item.name)] = ObjectOf(item);
  }
  return dict;
}

}  // namespace belay::python
