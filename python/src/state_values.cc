// Binds single values, and arrays that every rank holds.

#include <cstring>
#include <utility>
#include <variant>

#include "belay/extend/state.h"
#include "errors.h"
#include "names.h"
#include "state.h"

namespace belay::python {
namespace {

std::string Utf8Of(py::handle text) {
  Py_ssize_t size = 0;
  const char* const bytes = PyUnicode_AsUTF8AndSize(text.ptr(), &size);
  if (bytes == nullptr) throw py::error_already_set();
  return std::string(bytes, static_cast<size_t>(size));
}

py::array ArrayOfScalar(py::handle scalar) {
  return py::module_::import("numpy").attr("array")(scalar).cast<py::array>();
}

}  // namespace

bool IsNumpyScalar(py::handle value) {
  static const py::object& generic = Imported("numpy", "generic");
  return py::isinstance(value, generic);
}

template <typename T>
void BoundState::AddScalar(const std::string& key, T value,
                           const PerRankOptions* per_rank) {
  T& cell = NewCell(std::move(value));
  const auto add = [&](auto& held) {
    if (per_rank != nullptr) {
      state_.AddPerRank(key, held, *per_rank);
    } else if (is_from_rank0_) {
      state_.AddFromRank0(key, held);
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
    if (per_rank == nullptr) AddForm(FormKey("kind", key), "bytes");
  } else if (IsNumpyScalar(value)) {
    BindNumpyScalar(key, value, per_rank);
    if (per_rank == nullptr) AddForm(FormKey("kind", key), "numpy");
  } else if (PyBool_Check(object)) {
    AddScalar(key, object == Py_True, per_rank);
  } else if (PyLong_Check(object)) {
    BindInt(key, value, per_rank);
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

// A restore accepts a stored int of any size, except for per-rank ints, which a
// handler cannot list.
void BoundState::BindInt(const std::string& key, py::handle value,
                         const PerRankOptions* per_rank) {
  IntCell cell = IntCellOf(value);
  const bool is_big = cell.digits.has_value();
  if (!is_big && (purpose_ == Purpose::kSave || per_rank != nullptr)) {
    return AddScalar(key, cell.number, per_rank);
  }
  IntCell& bound = NewCell(std::move(cell));
  if (per_rank != nullptr) {
    state_.AddPerRank(key, *bound.digits, *per_rank);
  } else {
    AddValue(state_, key, RefTo(bound), IntHandler());
  }
}

void BoundState::BindNumpyScalar(const std::string& key, py::handle value,
                                 const PerRankOptions* per_rank) {
  const py::array array = ArrayOfScalar(value);
  if (per_rank != nullptr) return BindArrayValue(key, {array}, per_rank);
  const BoundArray bound = BindArray(Purpose::kSave, key, {array});
  const NumpyScalarCell& cell = NewCell(NumpyScalarCell{bound.memory});
  void* const data = const_cast<void*>(cell.array.data());
  AddWhole(key, {}, Memory(data, bound.dtype, 1, {}));
}

void BoundState::AddWhole(const std::string& key, const Shape& shape,
                          const Memory& memory) {
  if (is_from_rank0_) {
    state_.AddFromRank0(key, shape, memory);
  } else {
    state_.AddReplicated(key, shape, memory);
  }
}

char NumbersIn(py::handle list) {
  PyObject* const object = list.ptr();
  const Py_ssize_t size = PySequence_Fast_GET_SIZE(object);
  if (size == 0) return 0;
  PyTypeObject* const type = Py_TYPE(PySequence_Fast_GET_ITEM(object, 0));
  const char kind = type == &PyLong_Type    ? 'i'
                    : type == &PyFloat_Type ? 'd'
                    : type == &PyBool_Type  ? '?'
                                            : 0;
  if (kind == 0) return 0;
  for (Py_ssize_t i = 0; i < size; ++i) {
    PyObject* const one = PySequence_Fast_GET_ITEM(object, i);
    int overflow = 0;
    if (Py_TYPE(one) != type) return 0;
    if (kind == 'i') PyLong_AsLongLongAndOverflow(one, &overflow);
    if (overflow != 0) return 0;
  }
  return kind;
}

void BoundState::BindNumbers(const std::string& key, const py::tuple& numbers) {
  const char kind = NumbersIn(numbers);
  const py::array array = py::module_::import("numpy").attr("array")(
      numbers, kind == 'i'   ? "int64"
               : kind == 'd' ? "float64"
                             : "bool");
  const BoundArray bound = BindArray(Purpose::kSave, key, {array});
  const NumpyScalarCell& cell = NewCell(NumpyScalarCell{bound.memory});
  void* const data = const_cast<void*>(cell.array.data());
  const auto count = static_cast<int64_t>(cell.array.size());
  AddWhole(key, ShapeOf(cell.array), Memory(data, bound.dtype, count, {}));
}

bool BoundState::SetNumbers(size_t number, py::handle list) {
  auto* const cell = std::get_if<NumpyScalarCell>(&cells_.at(number));
  if (cell == nullptr || cell->array.ndim() != 1) return false;
  const py::object values =
      py::module_::import("numpy").attr("array")(list, cell->array.dtype());
  std::memcpy(cell->array.mutable_data(), py::array(values).data(),
              static_cast<size_t>(cell->array.nbytes()));
  return true;
}

bool BoundState::SetSingle(size_t number, py::handle value) {
  PyObject* const object = value.ptr();
  Cell& cell = cells_.at(number);
  if (auto* const flag = std::get_if<bool>(&cell)) {
    *flag = object == Py_True;
  } else if (auto* const whole = std::get_if<int64_t>(&cell)) {
    int overflow = 0;
    *whole = PyLong_AsLongLongAndOverflow(object, &overflow);
    return overflow == 0;
  } else if (auto* const any_int = std::get_if<IntCell>(&cell)) {
    IntCell given = IntCellOf(value);
    if (!given.digits) return false;
    *any_int = std::move(given);
  } else if (auto* const real = std::get_if<double>(&cell)) {
    *real = PyFloat_AsDouble(object);
  } else if (auto* const both = std::get_if<std::complex<double>>(&cell)) {
    const Py_complex given = PyComplex_AsCComplex(object);
    *both = {given.real, given.imag};
  } else if (auto* const text = std::get_if<TextCell>(&cell)) {
    text->text = Utf8Of(value);
  } else if (auto* const bytes = std::get_if<BytesCell>(&cell)) {
    const auto given =
        std::string_view(py::reinterpret_borrow<py::bytes>(value));
    bytes->bytes.assign(given.begin(), given.end());
  } else if (auto* const scalar = std::get_if<NumpyScalarCell>(&cell)) {
    const py::array given = ArrayOfScalar(value);
    if (!given.dtype().is(scalar->array.dtype())) return false;
    std::memcpy(scalar->array.mutable_data(), given.data(),
                static_cast<size_t>(given.itemsize()));
  } else {
    return value.is_none();
  }
  return true;
}

BoundState::Node BoundState::BindFromRank0(const std::string& key,
                                           py::handle value) {
  const size_t shards = state_.shards().size(), typed = state_.typed().size();
  is_from_rank0_ = true;
  Node node;
  try {
    node = BindNode(key, py::object(value.attr("value")), nullptr);
  } catch (...) {
    is_from_rank0_ = false;
    throw;
  }
  is_from_rank0_ = false;
  if (purpose_ == Purpose::kRestore) return node;
  bool is_plain = true;
  for (size_t i = typed; i < state_.typed().size(); ++i) {
    is_plain = is_plain && IsFormKey(state_.typed()[i].key);
  }
  for (size_t i = shards; i < state_.shards().size(); ++i) {
    is_plain = is_plain && state_.shards()[i].from_rank0;
  }
  if (!is_plain) {
    Refuse(key,
           "a belay.FromRank0 holds numbers of at most 64 bits, texts and "
           "arrays, and nested dicts, lists and tuples of these");
  }
  return node;
}

void BoundState::BindNone(const std::string& key, bool is_per_rank) {
  if (is_per_rank) Refuse(key, "belay cannot store None for each rank");
  TreeCell none{.key = key, .tree = {}};
  none.tree.typestr = kNoneTypestr;
  TreeCell& cell = NewCell(std::move(none));
  if (purpose_ == Purpose::kSave) {
    static std::monostate nothing;  // static: need not be listed again
    state_.Add(key, nothing);
  } else {
    state_.Add(key, cell.tree);
  }
}

void BoundState::BindArrayValue(const std::string& key, const GivenArray& given,
                                const PerRankOptions* per_rank) {
  if (per_rank == nullptr) {
    const BoundArray& bound = NewCell(BindArray(purpose_, key, given));
    AddWhole(key, ShapeOf(bound.memory), MemoryOf(bound));
    return;
  }
  GivenArray rows = given;
  const bool is_scalar = rows.array.ndim() == 0;
  if (is_scalar) rows.array = rows.array.attr("reshape")(1).cast<py::array>();
  BindRows(key, rows,
           {.is_per_rank = true, .other_ranks = per_rank->other_ranks});
  std::get<RowsCell>(cells_.back()).is_scalar = is_scalar;
}

}  // namespace belay::python
