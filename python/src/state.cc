#include "state.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "belay/extend/state.h"
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

// True for single values that are not tensors.
bool HasNoArray(py::handle value) {
  PyObject* const object = value.ptr();
  return object == nullptr || object == Py_None || PyLong_Check(object) ||
         PyFloat_Check(object) || PyUnicode_Check(object) ||
         PyBytes_Check(object) || PyComplex_Check(object);
}

}  // namespace

bool IsMapping(py::handle value) {
  static const py::object& mapping = Imported("collections.abc", "Mapping");
  return PyDict_Check(value.ptr()) || py::isinstance(value, mapping);
}

bool IsSequence(py::handle value) {
  static const py::object& deque = Imported("collections", "deque");
  return PyList_Check(value.ptr()) || PyTuple_Check(value.ptr()) ||
         py::isinstance(value, deque);
}

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
}

// Python's exceptions do not name the key of a value; this adds it.
BoundState::Node BoundState::BindNode(const std::string& key, py::handle value,
                                      const PerRankOptions* per_rank) {
  try {
    return BindValue(key, value, per_rank);
  } catch (const py::type_error& error) {  // from CheckTensor
    Refuse(key, error.what());
  } catch (const py::cast_error&) {
    Refuse(key, "an attribute of the " + TypeName(value) +
                    " has a type that it cannot have (found " + Shown(value) +
                    ")");
  } catch (const py::error_already_set& error) {
    if (key.empty() || !MayNameKey(error)) throw;
    RaiseNaming(Verb(purpose_) + " \"" + key + "\"", error);
  }
}

BoundState::Node BoundState::BindValue(const std::string& key, py::handle value,
                                       const PerRankOptions* per_rank) {
  if (py::isinstance<py::array>(value)) {
    TakeKey(key);
    const auto array = py::reinterpret_borrow<py::array>(value);
    BindArrayValue(key, {array}, per_rank);
    if (per_rank == nullptr && array.ndim() == 0) {
      AddForm(FormKey("kind", key), "ndarray");
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
  if (IsMapping(value) || IsSequence(value) || PyAnySet_Check(value.ptr())) {
    return BindContainer(key, value, per_rank);
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

BoundState::Node BoundState::BindContainer(const std::string& key,
                                           py::handle value,
                                           const PerRankOptions* per_rank) {
  if (std::find(inside_.begin(), inside_.end(), value.ptr()) != inside_.end()) {
    Refuse(key, "the " + TypeName(value) +
                    " contains itself; belay stores trees of values");
  }
  inside_.push_back(value.ptr());
  const absl::Cleanup leave = [this] { inside_.pop_back(); };
  const RecursionGuard guard;
  if (IsMapping(value)) {
    const bool is_open = per_rank == nullptr && !key.empty() &&
                         py::len(value) == 0 &&
                         IsAgreedEnd(key, Node::Kind::kDict, 0);
    if (is_open) return BindOpen(key, value, IsStoredBelow(key));
    return BindDict(key, value, per_rank);
  }
  if (IsSequence(value)) return BindSequence(key, value, per_rank);
  if (per_rank != nullptr) Refuse(key, "a belay.PerRank holds no set");
  return BindSet(key, value);
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
  AddValue(state_, form_key, RefTo(none), handler);
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

// Warns once for each class.
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
    AddForm(
        FormKey("order", key, std::to_string(std::hash<std::string>()(text))),
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
  const auto name_of = [&](size_t i) {
    return Joined(key, names.empty() ? std::to_string(i) : names[i]);
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
    } else if (IsTensor(array) && GivenArrayOf(array).array.ndim() > 0) {
      has_tensors = true;
    } else if (IsTensor(array)) {  // otherwise it would be a number
      AddForm(FormKey("kind", name_of(i)), "tensor");
    }
  }
  if (!has_tensors) return;
  AddForm(FormKey("tensors", key), "tensor");
  for (const size_t i : arrays) {
    AddForm(FormKey("kind", name_of(i)), "ndarray");
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
  const bool is_open =
      per_rank == nullptr && IsAgreedEnd(key, node.kind, values.size());
  const bool may_be_array = values.empty() ? is_open : plain_.contains(key);
  if (purpose_ == Purpose::kRestore && !knows_stored_ && per_rank == nullptr &&
      !key.empty() && NumbersIn(values) != 0) {
    // Usually stored as one array: the elements are bound separately only if
    // BindStored finds them so.
    plain_.insert(key);
    has_unbound_ = true;
    return node;
  }
  if (may_be_array && !key.empty() && IsStored(key) && !IsStoredBelow(key)) {
    Node numbers = BindOpen(key, sequence, /*is_stored=*/true);
    numbers.takes_all = is_open;  // lengths may differ between ranks
    return numbers;
  }
  if (is_open && !is_tuple && !key.empty()) {
    const int64_t stored = NumStored(key, static_cast<int64_t>(values.size()));
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
  // Its elements are in a list, whose own kind is not stored.
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

namespace {

// PyTorch's own errors for these tensors suggest no fix, or a wrong one.
void CheckTensor(py::handle tensor) {
  const auto text = [&](const char* name) -> std::string {
    return py::str(py::getattr(tensor, name, py::str()));
  };
  if (text("is_meta") == "True") {
    throw py::type_error(
        "the tensor is on the device \"meta\" and has no elements; give it "
        "memory first, as to_empty(device=\"cpu\") of a module does");
  }
  const std::string layout = text("layout");
  if (!layout.empty() && layout != "torch.strided") {
    throw py::type_error("the tensor is sparse (" + layout +
                         "); store its indices and its values as two tensors, "
                         "or its to_dense()");
  }
  if (text("is_quantized") == "True") {
    throw py::type_error(
        "the tensor is quantized; store its int_repr(), scale and zero point");
  }
}

GivenArray ArrayOfTensor(const py::object& tensor) {
  const py::object dtype = py::getattr(tensor, "dtype", py::none());
  if (std::string(py::str(dtype)) != "torch.bfloat16") {
    return {tensor.attr("numpy")().cast<py::array>()};
  }
  const py::object bits =
      tensor.attr("view")(py::module_::import("torch").attr("int16"));
  return {bits.attr("numpy")().cast<py::array>(), DType::kBF16};
}

}  // namespace

GivenArray GivenArrayOf(py::handle value) {
  if (py::isinstance<py::array>(value)) {
    return {py::reinterpret_borrow<py::array>(value)};
  }
  try {
    return ArrayOfTensor(value.attr("detach")());
  } catch (const py::error_already_set& error) {
    if (error.matches(PyExc_Exception)) CheckTensor(value);
    throw;
  }
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

GivenArray BoundState::ArrayIn(const std::string& key, const char* wrapper,
                               py::handle array) const {
  if (py::isinstance<py::array>(array) || IsTensor(array) ||
      PyObject_CheckBuffer(array.ptr()) != 0) {
    return ArrayFrom(key, array);
  }
  Refuse(key, std::string(wrapper) +
                  ": array: need an array of NumPy or a tensor (found " +
                  Shown(array) + ")");
}

Shape BoundState::ShapeIn(const std::string& key, const char* name,
                          py::handle numbers) const {
  try {
    return ShapeOf(numbers);
  } catch (const py::error_already_set& error) {
    if (!error.matches(PyExc_Exception)) throw;
  } catch (const py::cast_error&) {
    // Not a number.
  }
  Refuse(key, std::string(name) + ": need a tuple of int (found " +
                  Shown(numbers) + ")");
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

}  // namespace belay::python
