#include "seen_state.h"

#include <algorithm>
#include <utility>

#include "wrappers.h"

namespace belay::python {
namespace {

// Returns whether two keys of dicts are equal. Calls no code of the program.
bool IsSameName(py::handle a, py::handle b) {
  if (a.is(b)) return true;
  if (!a || !b || Py_TYPE(a.ptr()) != Py_TYPE(b.ptr())) return false;
  if (!PyUnicode_CheckExact(a.ptr()) && !PyLong_CheckExact(a.ptr())) {
    return false;
  }
  return PyObject_RichCompareBool(a.ptr(), b.ptr(), Py_EQ) == 1;
}

// The array flags that determine how belay finds the elements.
constexpr int kFlags =
    int{py::array::c_style} | int{py::detail::npy_api::NPY_ARRAY_ALIGNED_};

bool IsSingle(PyObject* value) {
  return value == Py_None || PyBool_Check(value) || PyLong_CheckExact(value) ||
         PyFloat_CheckExact(value) || PyUnicode_CheckExact(value) ||
         PyBytes_CheckExact(value) || PyComplex_CheckExact(value) ||
         IsNumpyScalar(value);
}

}  // namespace

bool SeenState::Record(py::handle state) {
  values_.clear();
  bound_ = nullptr;
  next_ = cell_ = 0;
  return Visit({}, state);
}

bool SeenState::Matches(py::handle state, BoundState& bound) {
  bound_ = &bound;
  next_ = cell_ = 0;
  held_.clear();
  const bool matches = Visit({}, state) && next_ == values_.size();
  bound_ = nullptr;
  return matches;
}

bool SeenState::Visit(py::handle name, py::handle value) {
  const py::handle type = py::type::handle_of(value);
  if (bound_ == nullptr) {
    values_.push_back({.type = py::reinterpret_borrow<py::object>(type),
                       .name = py::reinterpret_borrow<py::object>(name),
                       .numpy_dtype = {},
                       .dtype = {},
                       .shape_strides = {},
                       .global_shape = {},
                       .offset = {},
                       .layout = {}});
  } else if (next_ == values_.size() || !values_[next_].type.is(type) ||
             !IsSameName(values_[next_].name, name)) {
    return false;
  }
  Value& seen = values_[next_++];
  PyObject* const object = value.ptr();
  const Wrappers& wrappers = AllWrappers();
  if (type.is(wrappers.piece)) return VisitPiece(seen, value);
  if (type.is(wrappers.pieces)) return VisitPieces(seen, value);
  if (py::isinstance<py::array>(value)) return VisitArray(seen, value);
  if (PyDict_CheckExact(object) || PyODict_CheckExact(object)) {
    return VisitDict(seen, value);
  }
  if (PyList_CheckExact(object) || PyTuple_CheckExact(object)) {
    return VisitSequence(seen, value);
  }
  if (IsSingle(object)) return VisitSingle(value);
  if (type.is(wrappers.laid_out)) return VisitLaidOut(seen, value);
  return IsTensor(value) && VisitArray(seen, value);
}

bool SeenState::VisitDict(Value& seen, py::handle dict) {
  const Py_ssize_t size = PyDict_Size(dict.ptr());
  if (bound_ == nullptr) seen.size = size;
  if (seen.size != size) return false;
  const RecursionGuard guard;
  Py_ssize_t place = 0;
  PyObject* name = nullptr;
  PyObject* value = nullptr;
  while (PyDict_Next(dict.ptr(), &place, &name, &value) != 0) {
    const auto held = py::reinterpret_borrow<py::object>(value);
    if (!Visit(name, held)) return false;
  }
  return true;
}

bool SeenState::VisitSequence(Value& seen, py::handle sequence) {
  const Py_ssize_t size = PySequence_Fast_GET_SIZE(sequence.ptr());
  if (bound_ == nullptr) seen.size = size;
  if (seen.size != size) return false;
  const bool is_root = next_ == 1;
  const char numbers = is_root ? 0 : NumbersIn(sequence);
  if (bound_ == nullptr) seen.numbers = numbers;
  if (seen.numbers != numbers) return false;
  if (numbers != 0) {
    return bound_ == nullptr || bound_->SetNumbers(cell_++, sequence);
  }
  const RecursionGuard guard;
  for (Py_ssize_t i = 0; i < size; ++i) {
    if (i >= PySequence_Fast_GET_SIZE(sequence.ptr())) return false;
    const auto held = py::reinterpret_borrow<py::object>(
        PySequence_Fast_GET_ITEM(sequence.ptr(), i));
    if (!Visit({}, held)) return false;
  }
  return true;
}

bool SeenState::VisitPiece(Value& seen, py::handle piece) {
  const PieceAttributes given(piece);
  const bool is_plain = given.ghost.is_none() && given.periodic.is_none() &&
                        PyLong_CheckExact(given.replica.ptr()) &&
                        PyLong_AsLong(given.replica.ptr()) == 0;
  return is_plain && VisitShape(seen.global_shape, given.global_shape) &&
         VisitShape(seen.offset, given.offset) && VisitArray(seen, given.array);
}

bool SeenState::VisitPieces(Value& seen, py::handle pieces) {
  const py::object list = pieces.attr("pieces");
  if (!PyList_CheckExact(list.ptr()) && !PyTuple_CheckExact(list.ptr())) {
    return false;
  }
  const py::tuple all(list);
  if (bound_ == nullptr) seen.size = static_cast<Py_ssize_t>(all.size());
  return seen.size == static_cast<Py_ssize_t>(all.size()) &&
         std::all_of(all.begin(), all.end(),
                     [&](py::handle piece) { return Visit({}, piece); });
}

bool SeenState::VisitLaidOut(Value& seen, py::handle laid_out) {
  const py::object layout = laid_out.attr("layout");
  if (bound_ == nullptr) seen.layout = layout;
  const py::object shape = laid_out.attr("global_shape");
  const py::object array = laid_out.attr("array");
  return seen.layout.is(layout) && VisitShape(seen.global_shape, shape) &&
         VisitArray(seen, array);
}

bool SeenState::VisitArray(Value& seen, py::handle value) {
  const bool is_array = py::isinstance<py::array>(value);
  if (!is_array && !IsTensor(value)) return false;
  const GivenArray given = GivenArrayOf(value);
  // Subclasses may have more than elements, as masked arrays do.
  if (IsSubclass(given.array)) return false;
  const auto* const array = py::detail::array_proxy(given.array.ptr());
  const auto axes = static_cast<size_t>(array->nd);
  if (bound_ == nullptr) {
    seen.data = array->data;
    seen.numpy_dtype = py::reinterpret_borrow<py::object>(array->descr);
    seen.dtype = given.dtype;
    seen.flags = array->flags & kFlags;
    seen.shape_strides.assign(array->dimensions, array->dimensions + axes);
    seen.shape_strides.insert(seen.shape_strides.end(), array->strides,
                              array->strides + axes);
    return true;
  }
  const size_t cell = cell_++;
  held_.push_back(given.array);
  const py::ssize_t* const shape_strides = seen.shape_strides.data();
  const bool is_alike =
      seen.numpy_dtype.is(py::handle(array->descr)) &&
      seen.dtype == given.dtype && seen.flags == (array->flags & kFlags) &&
      seen.shape_strides.size() == 2 * axes &&
      std::equal(array->dimensions, array->dimensions + axes, shape_strides) &&
      std::equal(array->strides, array->strides + axes, shape_strides + axes);
  if (!is_alike) return false;
  if ((array->flags & py::array::c_style) == 0) return seen.data == array->data;
  bound_->SetData(cell, array->data);
  return true;
}

bool SeenState::VisitSingle(py::handle value) {
  return bound_ == nullptr || bound_->SetSingle(cell_++, value);
}

bool SeenState::VisitShape(Shape& seen, py::handle numbers) const {
  PyObject* const object = numbers.ptr();
  if (!PyTuple_CheckExact(object) && !PyList_CheckExact(object)) return false;
  const auto axes = static_cast<size_t>(PySequence_Fast_GET_SIZE(object));
  if (bound_ == nullptr) seen.resize(axes);
  if (seen.size() != axes) return false;
  for (size_t axis = 0; axis < axes; ++axis) {
    PyObject* const number =
        PySequence_Fast_GET_ITEM(object, static_cast<Py_ssize_t>(axis));
    if (!PyLong_CheckExact(number)) return false;
    int overflow = 0;
    const int64_t length = PyLong_AsLongLongAndOverflow(number, &overflow);
    if (overflow != 0) return false;
    if (bound_ == nullptr) seen[axis] = length;
    if (seen[axis] != length) return false;
  }
  return true;
}

namespace {

// A value that raises an exception counts as unknown: binding it raises the
// exception again, with the value's key.
template <typename Look>
bool IsKnown(Look look) {
  try {
    return look();
  } catch (const py::error_already_set& error) {
    if (!error.matches(PyExc_Exception)) throw;
  } catch (const py::builtin_exception&) {
    // As above.
  }
  return false;
}

}  // namespace

BoundState& SavedState::Bind(py::handle state, const Comm& comm) {
  constexpr int kMaxMisses = 16;
  if (bound_ != nullptr) {
    if (IsKnown([&] { return seen_.Matches(state, *bound_); })) {
      misses_ = 0;
      return *bound_;
    }
    misses_ = std::min(misses_ + 1, kMaxMisses);
  }
  Take();
  // A state that differs from save to save is recorded less and less often.
  const bool is_recorded = skipped_ + 1 >= misses_;
  skipped_ = is_recorded ? 0 : skipped_ + 1;
  const bool is_known =
      is_recorded && IsKnown([&] { return seen_.Record(state); });
  auto bound = std::make_unique<BoundState>(Purpose::kSave, comm);
  bound->Bind(state);
  bound_ = std::move(bound);
  // Check that nothing has changed in between, in case code of the program ran.
  is_known_ = is_known && !bound_->has_copies() &&
              IsKnown([&] { return seen_.Matches(state, *bound_); });
  return *bound_;
}

void SavedState::Release() {
  if (is_known_) {
    bound_->ReleaseArrays();
    seen_.Release();
  } else {
    Take();
  }
}

std::unique_ptr<BoundState> SavedState::Take() {
  seen_ = {};
  is_known_ = false;
  return std::exchange(bound_, nullptr);
}

}  // namespace belay::python
