#include "state.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "errors.h"
#include "log.h"
#include "names.h"
#include "variable.h"
#include "wrappers.h"

namespace belay::python {
namespace {

std::string TypeName(py::handle value) {
  return py::str(py::type::handle_of(value).attr("__name__"));
}

bool IsMapping(py::handle value) {
  static const py::object& mapping = Imported("collections.abc", "Mapping");
  return PyDict_Check(value.ptr()) || py::isinstance(value, mapping);
}

bool IsSequence(py::handle value) {
  static const py::object& deque = Imported("collections", "deque");
  return PyList_Check(value.ptr()) || PyTuple_Check(value.ptr()) ||
         py::isinstance(value, deque);
}

// Single values, which are no tensors.
bool HasNoArray(py::handle value) {
  PyObject* const object = value.ptr();
  return object == nullptr || object == Py_None || PyLong_Check(object) ||
         PyFloat_Check(object) || PyUnicode_Check(object) ||
         PyBytes_Check(object) || PyComplex_Check(object);
}

// Sets an item of a container of the program, if it allows that.
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

// A list of the values with the names "0", "1", ..., None where one lacks.
py::object ListOfNumbered(const py::object& dict) {
  std::map<int64_t, py::object> numbered;
  for (const auto& [name, value] : py::dict(dict)) {
    const std::string text = BytesOf(name);
    if (!IsIntName(text) || text.starts_with('-')) return dict;
    numbered[std::stoll(text)] = py::reinterpret_borrow<py::object>(value);
  }
  py::list list;
  for (const auto& [number, value] : numbered) {
    while (static_cast<int64_t>(list.size()) < number) list.append(py::none());
    list.append(value);
  }
  return list;
}

}  // namespace

std::string Joined(const std::string& key, const std::string& name) {
  return key.empty() ? name : key + "/" + name;
}

bool IsTensor(py::handle value) {
  return py::hasattr(value, "detach") && py::hasattr(value, "numpy");
}

py::object TorchTensorOf(const py::object& array) {
  return py::module_::import("torch").attr("as_tensor")(array);
}

void BoundState::Bind(py::handle state) {
  const bool is_tree = IsMapping(state) || IsSequence(state);
  if (!is_tree) {
    ThrowInvalid(Verb(purpose_) +
                 ": the state is a dict, a list or a tuple (found " +
                 TypeName(state) + ")");
  }
  root_ = BindNode("", state, nullptr);
  if (purpose_ == Purpose::kRestore) return;
  for (const std::string& key : PlainKeys()) {
    plain_keys_hash_ += std::hash<std::string>()(key);  // in any order
  }
}

std::vector<std::string> BoundState::PlainKeys() const {
  std::vector<std::string> keys;
  for (const Shard& shard : state_.shards()) {
    if (shard.replica == State::kReplicaIsRank) keys.push_back(shard.key);
  }
  for (const TypedValue& value : state_.typed()) {
    const bool is_form = IsFormKey(value.key);
    if (value.shard < 0 && !is_form) keys.push_back(value.key);
  }
  return keys;
}

BoundState::Node BoundState::BindNode(const std::string& key, py::handle value,
                                      const PerRankOptions* per_rank) {
  if (py::isinstance<py::array>(value)) {
    TakeKey(key);
    const auto array = py::reinterpret_borrow<py::array>(value);
    BindArrayValue(key, {array}, per_rank);
    if (per_rank == nullptr && array.ndim() == 0) {
      AddForm(FormKey("kind", key), "array");
    }
    return CellNode(
        value, per_rank != nullptr ? Node::Kind::kCell : Node::Kind::kKept);
  }
  if (IsWrapper(value)) {
    if (per_rank != nullptr || is_from_rank0_) {
      Refuse(key, std::string("a belay.") +
                      (is_from_rank0_ ? "FromRank0" : "PerRank") +
                      " holds no belay." + TypeName(value));
    }
    return BindWrapper(key, value);
  }
  const RecursionGuard guard;
  if (IsMapping(value)) {
    const bool is_open = per_rank == nullptr && !key.empty() &&
                         py::len(value) == 0 &&
                         IsAgreedEnd(key, Node::Kind::kDict, 0);
    if (is_open) return BindOpen(key, value, IsStoredBelow(key));
    return BindDict(key, value, per_rank);
  }
  if (IsSequence(value)) return BindSequence(key, value, per_rank);
  if (PyAnySet_Check(value.ptr())) {
    if (per_rank != nullptr) Refuse(key, "a belay.PerRank holds no set");
    return BindSet(key, value);
  }
  TakeKey(key);
  if (ShardedVariable* const variable = VariableIn(value)) {
    if (per_rank != nullptr) Refuse(key, "a belay.PerRank holds no variable");
    state_.AddShardedVariable(key, *variable);
    return {.kind = Node::Kind::kKept,
            .given = py::reinterpret_borrow<py::object>(value)};
  }
  if (BindScalar(key, value, per_rank)) {
    return CellNode(value, Node::Kind::kCell);
  }
  BindArrayValue(key, ArrayFrom(key, value), per_rank);
  if (PyByteArray_Check(value.ptr()) && per_rank == nullptr) {
    AddForm(FormKey("kind", key), "bytearray");
  }
  return CellNode(value,
                  per_rank != nullptr ? Node::Kind::kCell : Node::Kind::kKept);
}

BoundState::Node BoundState::BindDict(const std::string& key, py::handle dict,
                                      const PerRankOptions* per_rank) {
  Node node{.kind = Node::Kind::kDict,
            .given = py::reinterpret_borrow<py::object>(dict)};
  const py::list names(dict.attr("keys")());
  node.items.reserve(names.size());
  std::vector<std::string> parts;
  std::unordered_set<std::string> taken;
  bool has_ints = false;
  for (const py::handle name : names) {
    parts.push_back(NameIn(key, name, taken, has_ints));
    const py::object value = dict[name];
    node.items.emplace_back(
        py::reinterpret_borrow<py::object>(name),
        BindNode(Joined(key, parts.back()), value, per_rank));
  }
  if (purpose_ == Purpose::kSave && per_rank == nullptr) {
    AddForms(key, node, parts, has_ints);
  }
  return node;
}

std::string BoundState::NameIn(const std::string& key, py::handle name,
                               std::unordered_set<std::string>& taken,
                               bool& has_ints) {
  std::string text;
  if (PyUnicode_CheckExact(name.ptr())) {
    text = BytesOf(name);
    if (text.empty()) Refuse(key, "a key of a dict is empty");
    if (text.find('/') != text.npos) AddName(key, name);
  } else if (PyLong_CheckExact(name.ptr())) {
    text = BytesOf(name);
    has_ints = true;
  } else {
    text = AddName(key, name);
  }
  if (!taken.insert(text).second) {
    Refuse(key, "two keys of a dict are stored as \"" + text +
                    "\", as 1 and \"1\" would be; rename one of them");
  }
  return text;
}

std::string BoundState::AddName(const std::string& key, py::handle name) {
  py::tuple both;
  try {
    both = Kinds("text_of")(name);
  } catch (const py::error_already_set& error) {
    if (!error.matches(PyExc_TypeError)) throw;
    Refuse(key, "belay cannot store a key of type " + TypeName(name) +
                    " of a dict (found " + std::string(py::repr(name)) +
                    "); use a str, an int, a float, a bool, None, bytes or a "
                    "tuple of these");
  }
  std::string text = BytesOf(both[0]);
  if (text.empty()) Refuse(key, "a key of a dict is empty");
  AddForm(FormKey("name", key, text), both[1].cast<std::string>());
  return text;
}

void BoundState::AddForm(std::string form_key, const std::string& typestr) {
  static NoValue none;
  if (purpose_ != Purpose::kSave || !keys_.insert(form_key).second) return;
  TypeHandlerPtr& handler = form_handlers_[typestr];
  if (handler == nullptr) handler = FormHandler(typestr);
  state_.AddValue(form_key, RefTo(none), handler);
}

void BoundState::AddKind(const std::string& key, py::handle container) {
  const bool is_empty = py::len(container) == 0;
  const std::string form_key = FormKey(is_empty ? "empty" : "kind", key);
  if (PyList_CheckExact(container.ptr())) return AddForm(form_key, "list");
  if (PyTuple_CheckExact(container.ptr())) return AddForm(form_key, "tuple");
  const auto [kind, is_exact] = KindOf(container);
  if (!is_exact && rank_ == 0) WarnOfClass(key, container, kind);
  if (kind != "dict" || is_empty) AddForm(form_key, kind);
}

// Once for each class.
void BoundState::WarnOfClass(const std::string& key, py::handle container,
                             const std::string& kind) const {
  static auto& warned = *new std::set<std::string>;
  const std::string name = TypeName(container);
  if (!warned.insert(name).second) return;
  LogWarning("save \"" + key + "\": belay does not store the class " + name +
             ": a restore returns a " + kind +
             ", unless the state that is passed to it has the " + name);
}

void BoundState::AddForms(const std::string& key, const Node& node,
                          const std::vector<std::string>& names,
                          bool has_ints) {
  if (!PyDict_CheckExact(node.given.ptr()) || names.empty()) {
    AddKind(key, node.given);
  }
  if (has_ints) AddForm(FormKey("ints", key), "int");
  for (size_t i = 0; has_ints && i < names.size(); ++i) {
    const py::object& name = node.items[i].first;
    if (PyUnicode_CheckExact(name.ptr()) && IsIntName(names[i])) {
      AddName(key, name);
    }
  }
  if (PyODict_Check(node.given.ptr()) &&
      !std::is_sorted(names.begin(), names.end())) {
    py::list order;
    for (const std::string& name : names) order.append(NameOf(name));
    const std::string text =
        py::str(py::module_::import("json").attr("dumps")(order));
    AddForm(FormKey("order", key,
                    std::to_string(std::hash<std::string>()(text))),
            text);
  }
  AddTensors(key, node, names);
}

void BoundState::AddTensors(const std::string& key, const Node& node,
                            const std::vector<std::string>& names) {
  const auto array_in = [](py::handle value) {
    const bool has_array = IsWrapper(value) && py::hasattr(value, "array");
    return has_array ? py::object(value.attr("array"))
                     : py::reinterpret_borrow<py::object>(value);
  };
  std::vector<size_t> arrays;
  bool has_tensors = false;
  for (size_t i = 0; i < node.items.size(); ++i) {
    const Node& item = node.items[i].second;
    const bool is_value = item.kind == Node::Kind::kKept ||
                          item.kind == Node::Kind::kCell ||
                          item.kind == Node::Kind::kWrapper;
    if (!is_value || HasNoArray(item.given)) continue;
    const py::object array = array_in(item.given);
    if (py::isinstance<py::array>(array)) {
      arrays.push_back(i);
    } else if (IsTensor(array)) {
      has_tensors = true;
    }
  }
  if (!has_tensors) return;
  AddForm(FormKey("tensors", key), "tensor");
  for (const size_t i : arrays) {
    AddForm(FormKey("kind", Joined(key, names.empty() ? std::to_string(i)
                                                      : names[i])),
            "array");
  }
}

BoundState::Node BoundState::BindSequence(const std::string& key,
                                          py::handle sequence,
                                          const PerRankOptions* per_rank) {
  const bool is_tuple = PyTuple_Check(sequence.ptr());
  Node node{.kind = is_tuple ? Node::Kind::kTuple : Node::Kind::kList,
            .given = py::reinterpret_borrow<py::object>(sequence)};
  const py::tuple values(node.given);
  RefuseListOfPieces(key, values);
  const bool is_open = per_rank == nullptr &&
                       IsAgreedEnd(key, node.kind, values.size());
  const bool may_be_array = values.empty() ? is_open : plain_.contains(key);
  if (may_be_array && !key.empty() && IsStored(key) && !IsStoredBelow(key)) {
    return BindOpen(key, sequence, /*is_stored=*/true);
  }
  if (is_open && !is_tuple && !key.empty()) {
    const int64_t stored =
        NumStored(key, static_cast<int64_t>(values.size()));
    const bool differs =
        stored > 0 && stored != static_cast<int64_t>(values.size());
    if (values.empty() || (differs && plain_.contains(key))) {
      return BindOpen(key, sequence, stored > 0);
    }
  }
  const bool is_named = py::hasattr(sequence, "_fields");  // a namedtuple
  if (purpose_ == Purpose::kSave && per_rank == nullptr && !key.empty() &&
      !is_named && NumbersIn(values) != 0) {
    TakeKey(key);
    BindNumbers(key, values);
    AddKind(key, sequence);
    return CellNode(sequence, Node::Kind::kKept);
  }
  int64_t number = 0;
  for (const py::handle value : values) {
    node.items.emplace_back(
        py::object(),
        BindNode(Joined(key, std::to_string(number++)), value, per_rank));
  }
  if (per_rank != nullptr) return node;
  if (purpose_ == Purpose::kSave) {
    AddKind(key, sequence);
    AddTensors(key, node, {});
    return node;
  }
  if (IsPlain(node)) plain_.insert(key);
  if (is_open) BindRest(key, node);
  return node;
}

// A set is stored as a list of its elements.
BoundState::Node BoundState::BindSet(const std::string& key, py::handle set) {
  Node node{.kind = Node::Kind::kKept,
            .given = py::reinterpret_borrow<py::object>(set)};
  if (purpose_ == Purpose::kRestore) {
    if (!IsAgreedEnd(key, Node::Kind::kOpen, 0)) return node;
    return BindOpen(key, set, IsStored(key) || IsStoredBelow(key));
  }
  try {
    node.given = Kinds("elements_of")(set);
  } catch (const py::error_already_set& error) {
    if (!error.matches(PyExc_TypeError)) throw;
    Refuse(key, "belay cannot store a " + TypeName(set) +
                    " with an element of type " +
                    std::string(py::str(error.value())) +
                    "; use elements that are a str, bytes, a number, None or a "
                    "tuple of these, or store a list");
  }
  const bool is_frozen = PyFrozenSet_Check(set.ptr()) != 0;
  const std::string kind = is_frozen ? "frozenset" : "set";
  const bool is_empty = py::len(set) == 0;
  AddForm(FormKey(is_empty ? "empty" : "kind", key), kind);
  // Its elements are in a list, whose kind is not stored then.
  keys_.insert(FormKey("kind", key));
  keys_.insert(FormKey("empty", key));
  return BindSequence(key, node.given, nullptr);
}

BoundState::Node BoundState::BindOpen(const std::string& key, py::handle given,
                                      bool is_stored) {
  has_open_ = true;
  Node node{.kind = Node::Kind::kOpen,
            .given = py::reinterpret_borrow<py::object>(given),
            .key = key};
  if (is_stored) {
    TakeKey(key);
    BindNone(key, /*is_per_rank=*/false);
    node.cell = static_cast<int64_t>(cells_.size()) - 1;
  }
  return node;
}

GivenArray GivenArrayOf(py::handle value) {
  if (py::isinstance<py::array>(value)) {
    return {py::reinterpret_borrow<py::array>(value)};
  }
  const py::object tensor = value.attr("detach")();
  const py::object dtype = py::getattr(tensor, "dtype", py::none());
  if (std::string(py::str(dtype)) != "torch.bfloat16") {
    return {tensor.attr("numpy")().cast<py::array>()};
  }
  const py::object bits =
      tensor.attr("view")(py::module_::import("torch").attr("int16"));
  return {bits.attr("numpy")().cast<py::array>(), DType::kBF16};
}

GivenArray BoundState::ArrayFrom(const std::string& key,
                                 py::handle object) const {
  if (py::isinstance<py::array>(object) || IsTensor(object)) {
    return GivenArrayOf(object);
  }
  if (PyObject_CheckBuffer(object.ptr()) != 0) {
    return {
        py::module_::import("numpy").attr("asarray")(object).cast<py::array>()};
  }
  Refuse(key, "belay cannot store a value of type " + TypeName(object));
}

void BoundState::SetData(size_t cell, void* data) {
  std::get<BoundArray>(cells_[cell]).data = data;
}

bool BoundState::has_copies() const {
  return std::any_of(cells_.begin(), cells_.end(), [](const Cell& cell) {
    const auto* const array = std::get_if<BoundArray>(&cell);
    return array != nullptr && array->is_copy();
  });
}

bool BoundState::needs_forms() const {
  return has_open_ ||
         std::any_of(cells_.begin(), cells_.end(), [](const Cell& cell) {
           const auto* const none = std::get_if<TreeCell>(&cell);
           return none != nullptr && MayHaveForms(none->tree);
         });
}

void BoundState::ReleaseArrays() {
  root_ = {};
  for (Cell& cell : cells_) {
    if (auto* const array = std::get_if<BoundArray>(&cell)) {
      array->given = array->memory =
          py::reinterpret_steal<py::array>(py::handle());
    }
  }
}

void BoundState::TakeKey(const std::string& key) {
  if (IsFormKey(key)) {
    Refuse(key, "keys that begin with \".python\" are for belay's own use");
  }
  if (!keys_.insert(key).second) Refuse(key, "two values have this key");
}

BoundState::Node BoundState::CellNode(py::handle given, Node::Kind kind) const {
  return {.kind = kind,
          .given = py::reinterpret_borrow<py::object>(given),
          .cell = static_cast<int64_t>(cells_.size()) - 1};
}

void BoundState::Refuse(const std::string& key,
                        const std::string& cause) const {
  ThrowInvalid(Verb(purpose_) + " \"" + key + "\": " + cause);
}

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
      for (auto& item : node.items) Rebuilt(item.second);  // of Pieces
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

// The class of what was passed goes before the stored one, but where a plain
// dict or None takes any.
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
  if (given.is_none() || PyDict_CheckExact(given.ptr())) return found;
  if (IsMapping(given)) {
    return IsMapping(found) ? Like(given, py::dict(found)) : found;
  }
  const bool is_array = py::isinstance<py::array>(found);
  if (is_array && found.attr("ndim").cast<int>() == 1) {
    found = found.attr("tolist")();  // of another language, or an array
  }
  if (PyTuple_Check(given.ptr()) && py::len(given) != py::len(found)) {
    Refuse(node.key, std::to_string(py::len(found)) +
                         " elements are stored; pass as many (found " +
                         std::to_string(py::len(given)) + ")");
  }
  // Lists were stored without their kind once.
  if (PyDict_CheckExact(found.ptr())) found = ListOfNumbered(found);
  const bool fits = IsSequence(found) || PyAnySet_Check(found.ptr());
  return fits ? Like(given, py::list(found)) : found;
}

void BoundState::FillOpen(Node& node, const py::object& found) {
  const py::object& given = node.given;
  if (found.is(given)) return;
  const bool is_alike =
      PyDict_Check(given.ptr())    ? PyDict_Check(found.ptr())
      : PyAnySet_Check(given.ptr()) ? PyAnySet_Check(found.ptr())
                                    : IsSequence(given) && IsSequence(found);
  const bool may_change = py::hasattr(given, "clear");
  if (!is_alike || !may_change) return;
  given.attr("clear")();
  const char* const add = IsSequence(given) ? "extend" : "update";
  if (PyDict_Check(given.ptr())) {  // a Counter's own update adds up
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

// Whether it, or anything below it, was not stored.
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
