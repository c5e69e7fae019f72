#include "state.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "errors.h"
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
  const bool is_tree = IsMapping(state) || PyList_Check(state.ptr()) ||
                       PyTuple_Check(state.ptr());
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
    if (value.shard < 0) keys.push_back(value.key);
  }
  return keys;
}

BoundState::Node BoundState::BindNode(const std::string& key, py::handle value,
                                      const PerRankOptions* per_rank) {
  if (py::isinstance<py::array>(value)) {
    TakeKey(key);
    BindArrayValue(key, {py::reinterpret_borrow<py::array>(value)}, per_rank);
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
    if (!is_open || !IsStoredBelow(key)) return BindDict(key, value, per_rank);
    return BindNode(key, py::none(), nullptr);
  }
  if (PyList_Check(value.ptr()) || PyTuple_Check(value.ptr())) {
    return BindSequence(key, value, per_rank);
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
  return CellNode(value,
                  per_rank != nullptr ? Node::Kind::kCell : Node::Kind::kKept);
}

BoundState::Node BoundState::BindDict(const std::string& key, py::handle dict,
                                      const PerRankOptions* per_rank) {
  Node node{.kind = Node::Kind::kDict, .given = {}};
  const py::list names(dict.attr("keys")());
  node.items.reserve(names.size());
  for (const py::handle name : names) {
    const bool is_number =
        PyLong_Check(name.ptr()) && !PyBool_Check(name.ptr());
    if (!py::isinstance<py::str>(name) && !is_number) {
      Refuse(key, "a key of a dict is a str or an int (found " +
                      std::string(py::repr(name)) + ")");
    }
    const std::string part = BytesOf(name);
    if (part.empty()) Refuse(key, "a key of a dict is empty");
    const py::object value = dict[name];
    node.items.emplace_back(py::reinterpret_borrow<py::object>(name),
                            BindNode(Joined(key, part), value, per_rank));
  }
  return node;
}

BoundState::Node BoundState::BindSequence(const std::string& key,
                                          py::handle sequence,
                                          const PerRankOptions* per_rank) {
  const bool is_list = PyList_Check(sequence.ptr());
  Node node{.kind = is_list ? Node::Kind::kList : Node::Kind::kTuple,
            .given = py::reinterpret_borrow<py::object>(sequence)};
  int64_t number = 0;
  for (const py::handle value : py::tuple(py::object(node.given))) {
    node.items.emplace_back(
        py::object(),
        BindNode(Joined(key, std::to_string(number++)), value, per_rank));
  }
  if (per_rank == nullptr && IsAgreedEnd(key, node.kind, node.items.size())) {
    BindRest(key, node);
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

bool BoundState::may_have_structs() const {
  return std::any_of(cells_.begin(), cells_.end(), [](const Cell& cell) {
    const auto* const none = std::get_if<TreeCell>(&cell);
    return none != nullptr && MayHaveStructs(none->tree);
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

py::object BoundState::Rebuild() { return Rebuilt(root_); }

py::object BoundState::Rebuilt(const Node& node) {
  using Kind = Node::Kind;
  switch (node.kind) {
    case Kind::kKept:
    case Kind::kCell: {
      if (node.cell < 0) return node.given;
      py::object value = ValueOf(cells_[static_cast<size_t>(node.cell)]);
      if (node.kind == Kind::kKept) return node.given;
      return IsTensor(node.given) ? TorchTensorOf(value) : value;
    }
    case Kind::kDict: {
      py::dict dict;
      for (const auto& [name, item] : node.items) dict[name] = Rebuilt(item);
      return dict;
    }
    case Kind::kIfStored:
      return RebuiltStored(node.key, node.items.front().second);
    case Kind::kWrapper:
      return Rewrapped(node.given, Rebuilt(node.items.front().second));
    default:
      break;
  }
  py::list list;
  for (const auto& item : node.items) list.append(Rebuilt(item.second));
  if (node.kind == Kind::kList) return list;
  if (py::hasattr(node.given, "_fields")) {  // a namedtuple
    return py::type::of(node.given)(*list);
  }
  return py::tuple(std::move(list));
}

py::object BoundState::RebuiltStored(const std::string& key, const Node& node) {
  py::dict dict;
  for (const auto& [name, item] : node.items) {
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
    const StoredFields& fields;
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
    py::object operator()(RowsCell& cell) const { return RowsArray(cell); }
    py::object operator()(TreeCell& cell) const {
      return ObjectOf(cell.tree, fields, cell.key);
    }
  };
  return std::visit(Visitor{fields_}, cell);
}

}  // namespace belay::python
