// Builds the result of a restore: the given state with the stored values.

#include <map>
#include <string>
#include <utility>

#include "errors.h"
#include "log.h"
#include "names.h"
#include "state.h"
#include "variable.h"
#include "wrappers.h"

namespace belay::python {
namespace {

// Sets an item of a container of the program, if the container allows it.
void PutItem(const py::object& container, py::handle name,
             const py::object& value) {
  const int failed =
      PyDict_CheckExact(container.ptr())
          ? PyDict_SetItem(container.ptr(), name.ptr(), value.ptr())
          : PyObject_SetItem(container.ptr(), name.ptr(), value.ptr());
  if (failed == 0) return;
  const bool is_exit = PyErr_ExceptionMatches(PyExc_Exception) == 0;
  if (is_exit) throw py::error_already_set();
  PyErr_Clear();
}

void CopyAttributes(const py::object& from, const py::object& to) {
  to.attr("__dict__").attr("update")(from.attr("__dict__"));
}

// Returns a list of the values with the names "0", "1", ..., with None for
// missing ones; or the dict itself if it is not a list.
py::object ListOfNumbered(const py::object& dict) {
  constexpr size_t kMaxDigits = 18;
  std::map<int64_t, py::object> numbered;
  for (const auto& [name, value] : py::dict(dict)) {
    const std::string text = BytesOf(name);
    if (!IsIntName(text) || text.starts_with('-') || text.size() > kMaxDigits) {
      return dict;
    }
    numbered[std::stoll(text)] = py::reinterpret_borrow<py::object>(value);
  }
  const int64_t last = numbered.empty() ? -1 : numbered.rbegin()->first;
  if (!IsLengthOf(std::ssize(numbered), last + 1)) return dict;
  py::list list;
  for (const auto& [number, value] : numbered) {
    while (static_cast<int64_t>(list.size()) < number) list.append(py::none());
    list.append(value);
  }
  return list;
}

}  // namespace

py::object BoundState::Rebuild() {
  py::object state = Rebuilt(root_);
  WarnOfUnfilled();
  return state;
}

py::object BoundState::Rebuilt(Node& node) {
  using Kind = Node::Kind;
  switch (node.kind) {
    case Kind::kKept:
    case Kind::kCell: {
      for (auto& item : node.items) Rebuilt(item.second);  // belay.Pieces
      if (node.cell < 0) return node.given;
      Cell& cell = cells_[static_cast<size_t>(node.cell)];
      py::object value = ValueOf(cell);
      const auto* const rows = std::get_if<RowsCell>(&cell);
      const bool is_filled = rows != nullptr && value.is(rows->target);
      if (is_filled || node.kind == Kind::kKept) return node.given;
      return IsTensor(node.given) ? TorchTensorOf(value) : value;
    }
    case Kind::kDict: {
      py::dict dict;
      for (auto& [name, item] : node.items) {
        const py::object value = Rebuilt(item);
        dict[name] = value;
        if (!item.is_filled && !value.is(item.given)) {
          PutItem(node.given, name, value);
        }
      }
      node.is_filled = py::hasattr(node.given, "__setitem__");
      return Like(node.given, dict);
    }
    case Kind::kOpen: {
      const py::object found = RebuiltOpen(node);
      FillOpen(node, found);
      return found;
    }
    case Kind::kIfStored:
      return RebuiltStored(node.key, node.items.front().second);
    case Kind::kWrapper: {
      Node& item = node.items.front().second;
      const py::object value = Rebuilt(item);
      node.is_filled = true;
      if (value.is(node.given)) return value;
      const py::object wrapper = Rewrapped(node.given, value);
      if (!item.is_filled) CopyAttributes(wrapper, node.given);
      return wrapper;
    }
    default:
      break;
  }
  py::list list;
  for (auto& item : node.items) {
    const py::object value = Rebuilt(item.second);
    if (node.kind == Kind::kList && !item.second.is_filled &&
        !value.is(item.second.given)) {
      PutItem(node.given, py::int_(list.size()), value);
    }
    list.append(value);
  }
  node.is_filled = node.kind == Kind::kList;
  if (PyTuple_CheckExact(node.given.ptr())) return py::tuple(std::move(list));
  return Like(node.given, std::move(list));
}

// The class of the passed container has priority over the stored class, unless
// a plain dict or None was passed, which accept any class.
py::object BoundState::RebuiltOpen(const Node& node) {
  if (node.cell < 0 && !forms_.Has(node.key)) {
    if (node.given.is_none()) return node.given;
    return py::module_::import("copy").attr("copy")(node.given);
  }
  py::object found;
  if (node.cell >= 0) {
    found = ValueOf(cells_[static_cast<size_t>(node.cell)]);
  } else {
    ValueTree nothing;
    found = ObjectOf(nothing, forms_, node.key);
  }
  const py::handle given = node.given;
  // The value was skipped, or the stored value is None.
  if (found.is_none() && node.cell >= 0 && !given.is_none()) return node.given;
  if (given.is_none() || PyDict_CheckExact(given.ptr())) return found;
  if (IsMapping(given)) {
    return IsMapping(found) ? Like(given, py::dict(found)) : found;
  }
  const bool is_array = py::isinstance<py::array>(found);
  if (is_array && found.attr("ndim").cast<int>() == 1) {
    found = found.attr("tolist")();  // saved by another language, or an array
  }
  const bool is_tuple = PyTuple_Check(given.ptr()) && node.takes_all;
  if (is_tuple && py::len(given) != py::len(found)) {
    Refuse(node.key, std::to_string(py::len(found)) +
                         " elements are stored; pass as many (found " +
                         std::to_string(py::len(given)) + ")");
  }
  // Older versions stored lists without their kind.
  if (PyDict_CheckExact(found.ptr())) found = ListOfNumbered(found);
  const bool fits = IsSequence(found) || PyAnySet_Check(found.ptr());
  if (!fits) return found;
  py::object elements = py::list(found);
  if (!node.takes_all) {
    const auto length = static_cast<py::ssize_t>(py::len(given));
    elements = elements[py::slice(0, length, 1)];
  }
  return Like(given, elements);
}

void BoundState::FillOpen(Node& node, const py::object& found) {
  const py::object& given = node.given;
  if (found.is(given)) return;
  const bool is_alike = PyDict_Check(given.ptr()) ? PyDict_Check(found.ptr())
                        : PyAnySet_Check(given.ptr())
                            ? PyAnySet_Check(found.ptr())
                            : IsSequence(given) && IsSequence(found);
  const bool may_change = py::hasattr(given, "clear");
  if (!is_alike || !may_change) return;
  given.attr("clear")();
  const char* const add = IsSequence(given) ? "extend" : "update";
  if (PyDict_Check(given.ptr())) {  // Counter.update would add the values
    Py_ssize_t place = 0;
    PyObject* name = nullptr;
    PyObject* value = nullptr;
    while (PyDict_Next(found.ptr(), &place, &name, &value) != 0) {
      PutItem(given, name, py::reinterpret_borrow<py::object>(value));
    }
  } else {
    given.attr(add)(found);
  }
  node.is_filled = py::type::of(given).is(py::type::of(found));
}

py::object BoundState::RebuiltStored(const std::string& key, Node& node) {
  py::dict dict;
  for (auto& [name, item] : node.items) {
    const std::string inner = Joined(key, BytesOf(name));
    if (item.kind == Node::Kind::kDict) {
      dict[name] = RebuiltStored(inner, item);
    } else if (!IsMissing(inner)) {
      dict[name] = Rebuilt(item);
    }
  }
  return dict;
}

// Returns whether the value, or anything below it, was not stored.
bool BoundState::IsMissing(const std::string& key) const {
  const auto has = [&](const std::string& prefix, bool is_whole) {
    const auto at = std::lower_bound(missing_.begin(), missing_.end(), prefix);
    if (at == missing_.end()) return false;
    return is_whole ? *at == prefix : at->starts_with(prefix);
  };
  return has(key, true) || has(key + "/", false);
}

std::vector<std::string> BoundState::TakeMissing(
    std::vector<std::string> missing) {
  missing_ = std::move(missing);
  std::vector<std::string> needed;
  for (const std::string& key : missing_) {
    const bool is_optional = std::any_of(
        optional_.begin(), optional_.end(),
        [&](const std::string& prefix) { return key.starts_with(prefix); });
    if (!is_optional) needed.push_back(key);
  }
  return needed;
}

py::object BoundState::ValueOf(Cell& cell) {
  struct Visitor {
    BoundState& state;
    const StoredForms& forms;
    py::object operator()(bool value) const { return py::bool_(value); }
    py::object operator()(int64_t value) const { return py::int_(value); }
    py::object operator()(const IntCell& value) const { return IntOf(value); }
    py::object operator()(double value) const { return py::float_(value); }
    py::object operator()(const std::complex<double>& value) const {
      return py::reinterpret_steal<py::object>(
          PyComplex_FromDoubles(value.real(), value.imag()));
    }
    py::object operator()(const TextCell& cell) const {
      return py::str(cell.text);
    }
    py::object operator()(const BytesCell& cell) const {
      return py::bytes(reinterpret_cast<const char*>(cell.bytes.data()),
                       cell.bytes.size());
    }
    py::object operator()(const NumpyScalarCell& cell) const {
      return py::object(cell.array)[py::tuple()];
    }
    py::object operator()(const BoundArray& array) const {
      array.CopyBack();
      return array.given;
    }
    py::object operator()(RowsCell& cell) const { return state.RowsOf(cell); }
    py::object operator()(TreeCell& cell) const {
      return ObjectOf(cell.tree, forms, cell.key);
    }
  };
  return std::visit(Visitor{*this, forms_}, cell);
}

}  // namespace belay::python
