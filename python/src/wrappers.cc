#include "wrappers.h"

#include <algorithm>
#include <array>
#include <utility>

#include "belay/arrays/layout.h"
#include "belay/extend/state.h"
#include "errors.h"
#include "log.h"
#include "names.h"

namespace belay::python {
namespace {

// Like isinstance, but fast if the object has exactly this class: a state may
// have thousands of such objects.
bool IsOf(py::handle value, py::handle type) {
  return py::type::handle_of(value).is(type) || py::isinstance(value, type);
}

// Returns the name of the attribute that holds the value of a wrapper.
const char* ValueName(py::handle wrapper) {
  const Wrappers& all = AllWrappers();
  const bool is_value = py::isinstance(wrapper, all.per_rank) ||
                        py::isinstance(wrapper, all.from_rank0);
  return is_value ? "value" : "array";
}

OtherRanks OtherRanksNamed(py::handle name) {
  const std::string text = py::str(name);
  if (text == "error") return OtherRanks::kError;
  if (text == "even") return OtherRanks::kEven;
  if (text == "first") return OtherRanks::kFirst;
  ThrowInvalid("other_ranks: need \"error\", \"even\" or \"first\", found \"" +
               text + "\"");
}

// Reads ghost cells: a number, or for each axis a number or a pair.
MemoryLayout GhostsOf(const PieceAttributes& piece, py::ssize_t num_axes) {
  MemoryLayout layout;
  const py::object& ghost = piece.ghost;
  if (!ghost.is_none()) {
    const auto axes = static_cast<size_t>(num_axes);
    py::object each = ghost;
    if (PyLong_Check(ghost.ptr())) {
      each = py::tuple(py::make_tuple(ghost) * py::int_(axes));
    }
    for (const py::handle axis : each) {
      const bool is_pair = PyTuple_Check(axis.ptr());
      const py::object both = is_pair ? py::reinterpret_borrow<py::object>(axis)
                                      : py::make_tuple(axis, axis);
      layout.before.push_back(both[py::int_(0)].cast<int64_t>());
      layout.after.push_back(both[py::int_(1)].cast<int64_t>());
    }
  }
  layout.fill_ghosts = piece.fill_ghosts.cast<bool>();
  const py::object& periodic = piece.periodic;
  if (!periodic.is_none()) {
    for (const py::handle axis : periodic) {
      layout.periodic.push_back(axis.cast<bool>());
    }
  }
  return layout;
}

constexpr ArrayAccess kRowsAccess = {
    .view = [](void* object) -> ArrayAccess::View {
      auto& cell = *static_cast<RowsCell*>(object);
      const auto rows =
          static_cast<int64_t>(cell.bytes.size()) / cell.row_bytes;
      return {cell.bytes.data(), cell.dtype, Shape{rows * cell.row_elements}};
    },
    .resize =
        [](void* object, size_t elements) {
          auto& cell = *static_cast<RowsCell*>(object);
          const auto rows = static_cast<int64_t>(elements) / cell.row_elements;
          cell.bytes.resize(static_cast<size_t>(rows * cell.row_bytes));
        }};

// Reads a piece of a flat buffer: the shape of the array, or a box of it as
// (global_shape, offset, shape).
FlatPiece FlatPieceOf(py::handle name, py::handle form) {
  FlatPiece piece{.key = BytesOf(name)};
  const py::tuple parts = py::reinterpret_borrow<py::object>(form);
  const bool is_box = parts.size() == 3 && PySequence_Check(parts[0].ptr());
  if (!is_box) {
    piece.global_shape = ShapeOf(form);
    return piece;
  }
  piece.global_shape = ShapeOf(py::object(parts[0]));
  piece.box = Box{ShapeOf(py::object(parts[1])), ShapeOf(py::object(parts[2]))};
  return piece;
}

// Returns the array if it is dense and in native byte order, else a copy that
// is.
py::array DenseNative(const py::array& array) {
  const py::object native = array.dtype().attr("newbyteorder")("=");
  return py::module_::import("numpy")
      .attr("ascontiguousarray")(array, native)
      .cast<py::array>();
}

py::object Attribute(py::handle object, const py::str& name) {
  PyObject* const value = PyObject_GetAttr(object.ptr(), name.ptr());
  if (value == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(value);
}

}  // namespace

PieceAttributes::PieceAttributes(py::handle piece) {
  constexpr size_t kCount = 7;
  using Names = std::array<py::str, kCount>;
  const auto interned = [](const char* name) {
    return py::reinterpret_steal<py::str>(PyUnicode_InternFromString(name));
  };
  // As the constructor of belay.Piece sets them.
  static const Names& names = *new Names{
      interned("array"),  interned("global_shape"), interned("offset"),
      interned("ghost"),  interned("fill_ghosts"),  interned("periodic"),
      interned("replica")};
  const std::array<py::object*, kCount> values = {
      &array,       &global_shape, &offset, &ghost,
      &fill_ghosts, &periodic,     &replica};
  py::object dict;
  if (py::type::handle_of(piece).is(AllWrappers().piece)) {
    dict = py::reinterpret_steal<py::object>(
        PyObject_GenericGetDict(piece.ptr(), nullptr));
    if (!dict) PyErr_Clear();
  }
  size_t next = 0;
  Py_ssize_t place = 0;
  PyObject* name = nullptr;
  PyObject* value = nullptr;
  while (dict && next < kCount &&
         PyDict_Next(dict.ptr(), &place, &name, &value) != 0 &&
         names[next].is(py::handle(name))) {
    *values[next++] = py::reinterpret_borrow<py::object>(value);
  }
  // The attributes are in another order, which is slower to read.
  for (; next < kCount; ++next) {
    *values[next] = Attribute(piece, names[next]);
  }
}

const Wrappers& AllWrappers() {
  static const Wrappers* const all = [] {
    const py::module_ values = py::module_::import("belay._values");
    return new Wrappers{values.attr("Piece"),   values.attr("Pieces"),
                        values.attr("LaidOut"), values.attr("FlatRange"),
                        values.attr("Rows"),    values.attr("RowsById"),
                        values.attr("PerRank"), values.attr("FromRank0"),
                        values.attr("IfStored")};
  }();
  return *all;
}

bool IsWrapper(py::handle value) {
  const Wrappers& all = AllWrappers();
  const std::array<py::handle, 9> types = {
      all.piece,      all.pieces,   all.laid_out,   all.flat_range, all.rows,
      all.rows_by_id, all.per_rank, all.from_rank0, all.if_stored};
  const py::handle type = py::type::handle_of(value);
  for (const py::handle one : types) {
    if (type.is(one)) return true;
  }
  return std::any_of(types.begin(), types.end(), [&](py::handle one) {
    return py::isinstance(value, one);
  });
}

py::object Rewrapped(const py::object& wrapper, const py::object& value) {
  py::object copy = py::module_::import("copy").attr("copy")(wrapper);
  const char* const name = ValueName(wrapper);
  const bool was_tensor = IsTensor(wrapper.attr(name));
  const bool is_array = py::isinstance<py::array>(value);
  py::setattr(copy, name,
              was_tensor && is_array ? TorchTensorOf(value) : value);
  return copy;
}

py::object RowsArray(RowsCell& cell) {
  const py::dtype dtype = cell.array.memory.dtype();
  const Shape given = ShapeOf(cell.array.memory);
  std::vector<py::ssize_t> shape(given.begin(), given.end());
  shape[0] = static_cast<py::ssize_t>(cell.bytes.size()) / cell.row_bytes;
  py::object rows = ArrayOfBytes(dtype, shape, std::move(cell.bytes));
  if (cell.is_scalar && shape[0] == 1) return rows[py::int_(0)];
  return rows;
}

py::object BoundState::RowsOf(RowsCell& cell) {
  py::object rows = RowsArray(cell);
  if (cell.is_scalar) return rows;
  const auto given = py::reinterpret_borrow<py::array>(cell.target);
  const auto number = given.shape(0), found = py::array(rows).shape(0);
  if (number == found && given.writeable()) {
    py::module_::import("numpy").attr("copyto")(given, rows);
    return cell.target;
  }
  if (number == 0) return rows;  // the array only gives the dtype
  unfilled_.push_back("\"" + cell.key + "\" " +
                      (number == found ? "(is read-only)"
                                       : "(has " + std::to_string(number) +
                                             " rows, restored " +
                                             std::to_string(found) + ")"));
  return rows;
}

void BoundState::WarnOfUnfilled() {
  if (unfilled_.empty()) return;
  std::string others;
  if (unfilled_.size() > 1) {
    others = " and " + std::to_string(unfilled_.size() - 1) + " more";
  }
  LogWarning("restore: on rank " + std::to_string(rank_) + " the array of " +
             unfilled_.front() + others +
             " was not filled: the values are in new arrays, in the state that "
             "the restore returns");
  unfilled_.clear();
}

BoundState::Node BoundState::BindWrapper(const std::string& key,
                                         py::handle value) {
  const Wrappers& all = AllWrappers();
  if (IsOf(value, all.if_stored)) return BindIfStored(key, value);
  Node node{.kind = Node::Kind::kWrapper,
            .given = py::reinterpret_borrow<py::object>(value)};
  if (IsOf(value, all.per_rank)) {
    node.items.emplace_back(py::object(), BindPerRank(key, value));
    return node;
  }
  if (IsOf(value, all.from_rank0)) {
    node.items.emplace_back(py::object(), BindFromRank0(key, value));
    return node;
  }
  TakeKey(key);
  if (IsOf(value, all.pieces)) return BindPieces(key, value);
  const bool is_cut = IsOf(value, all.piece) || IsOf(value, all.laid_out) ||
                      IsOf(value, all.flat_range);
  if (IsOf(value, all.piece)) {
    BindPiece(key, value);
  } else if (IsOf(value, all.laid_out)) {
    BindLaidOut(key, value);
  } else if (IsOf(value, all.flat_range)) {
    BindFlatRange(key, value);
  } else if (IsOf(value, all.rows)) {
    BindRows(key, ArrayIn(key, "belay.Rows", value.attr("array")),
             {.other_ranks = OtherRanksNamed(value.attr("other_ranks"))});
  } else {
    BindRowsById(key, value);
  }
  // A piece is filled in place, so the wrapper itself is returned.
  if (is_cut) return CellNode(value, Node::Kind::kKept);
  node.items.emplace_back(py::object(), CellNode(value, Node::Kind::kCell));
  return node;
}

BoundState::Node BoundState::BindIfStored(const std::string& key,
                                          py::handle value) {
  Node node{.kind = Node::Kind::kIfStored, .given = {}, .key = key};
  node.items.emplace_back(
      py::object(), BindDict(key, py::object(value.attr("value")), nullptr));
  optional_.push_back(key + "/");
  return node;
}

BoundState::Node BoundState::BindPerRank(const std::string& key,
                                         py::handle value) {
  const PerRankOptions options{.other_ranks =
                                   OtherRanksNamed(value.attr("other_ranks"))};
  return BindNode(key, py::object(value.attr("value")), &options);
}

BoundState::Node BoundState::BindPieces(const std::string& key,
                                        py::handle pieces) {
  Node node{.kind = Node::Kind::kKept,
            .given = py::reinterpret_borrow<py::object>(pieces)};
  for (const py::handle piece : py::tuple(pieces.attr("pieces"))) {
    if (!IsOf(piece, AllWrappers().piece)) {
      Refuse(key,
             "belay.Pieces holds a list of belay.Piece (found " +
                 std::string(py::str(py::type::of(piece).attr("__name__"))) +
                 ")");
    }
    BindPiece(key, piece);
    node.items.emplace_back(py::object(), CellNode(piece, Node::Kind::kKept));
  }
  return node;
}

// Two boxes of one array in a list would be stored as two arrays, each with a
// gap.
void BoundState::RefuseListOfPieces(const std::string& key,
                                    const py::tuple& values) const {
  const auto& piece = AllWrappers().piece;
  std::vector<std::pair<Shape, Shape>> seen;
  for (const py::handle value : values) {
    if (!py::type::handle_of(value).is(piece)) continue;
    const PieceAttributes given(value);
    const std::pair place(ShapeIn(key, "global_shape", given.global_shape),
                          ShapeIn(key, "offset", given.offset));
    for (const auto& [shape, offset] : seen) {
      if (shape != place.first || offset == place.second) continue;
      Refuse(key,
             "a list has several belay.Piece with boxes at different "
             "places of an array of shape " +
                 ShapeText(shape) +
                 "; if they are boxes of one array, use belay.Pieces([...]), "
                 "and if they are of several, a dict");
    }
    seen.push_back(place);
  }
}

void BoundState::BindPiece(const std::string& key, py::handle wrapper) {
  const PieceAttributes piece(wrapper);
  const BoundArray& bound = NewCell(
      BindArray(purpose_, key, ArrayIn(key, "belay.Piece", piece.array)));
  MemoryLayout layout = GhostsOf(piece, bound.memory.ndim());
  Box box{ShapeIn(key, "offset", piece.offset), ShapeOf(bound.memory)};
  const size_t axes = box.shape.size();
  const bool has_ghosts = !layout.before.empty();
  if (has_ghosts && layout.before.size() != axes) {
    Refuse(key, "ghost: another number of axes than the array");
  }
  for (size_t axis = 0; has_ghosts && axis < axes; ++axis) {
    box.shape[axis] -= layout.before[axis] + layout.after[axis];
    if (box.shape[axis] < 0) {
      Refuse(key, "the array has fewer cells than ghost cells");
    }
  }
  const Shape shape = ShapeIn(key, "global_shape", piece.global_shape);
  const auto replica = piece.replica.cast<int64_t>();
  if (replica == 0) {
    state_.AddPiece(key, shape, box, MemoryOf(bound, std::move(layout)));
    return;
  }
  if (has_ghosts) Refuse(key, "a replica of a piece has no ghost cells");
  AddShard(state_, {.key = key,
                    .dtype = bound.dtype,
                    .global_shape = shape,
                    .box = box,
                    .replica = replica,
                    .data = const_cast<void*>(bound.memory.data()),
                    .strides = {bound.strides.begin(), bound.strides.end()}});
}

void BoundState::BindFlatRange(const std::string& key, py::handle range) {
  const BoundArray& bound = NewCell(BindArray(
      purpose_, key, ArrayIn(key, "belay.FlatRange", range.attr("array"))));
  if (bound.memory.ndim() != 1) {
    Refuse(key, "a range of a flat buffer has one axis");
  }
  if (!bound.strides.empty()) Refuse(key, "the range is not dense");
  const py::dict pieces(range.attr("pieces"));
  const auto begin = range.attr("begin").cast<int64_t>();
  const auto replica = range.attr("replica").cast<int64_t>();
  std::vector<FlatPiece> all;
  for (const auto& [name, form] : pieces) {
    FlatPiece& piece = all.emplace_back(FlatPieceOf(name, form));
    piece.replica = replica;
    TakeKey(key + "/" + piece.key);
  }
  state_.AddFlatRange(key + "/", all, begin,
                      begin + static_cast<int64_t>(bound.memory.size()),
                      MemoryOf(bound));
}

void BoundState::BindLaidOut(const std::string& key, py::handle laid_out) {
  const BoundArray& bound = NewCell(BindArray(
      purpose_, key, ArrayIn(key, "belay.LaidOut", laid_out.attr("array"))));
  const py::object given = laid_out.attr("layout");
  if (!py::isinstance<Layout>(given)) {
    Refuse(key, "layout: need a belay.Layout (found " + Shown(given) + ")");
  }
  const auto layout = given.cast<Layout>();
  const Shape shape =
      ShapeIn(key, "global_shape", laid_out.attr("global_shape"));
  if (layout.mesh().num_ranks() != num_ranks_) {
    Refuse(key, "the layout " + layout.ToString() +
                    " is for another number of ranks (need " +
                    std::to_string(num_ranks_) + ", found " +
                    std::to_string(layout.mesh().num_ranks()) +
                    "); Layout.on_ranks makes one for the communicator");
  }
  const Box box = ValueOrThrow(layout.LocalBox(shape, rank_));
  if (box.shape != ShapeOf(bound.memory)) {
    Refuse(key,
           "the array does not have the shape of this rank's piece (need " +
               ShapeText(box.shape) + ", found " +
               ShapeText(ShapeOf(bound.memory)) + ")");
  }
  state_.AddLaidOut(key, layout, shape, rank_, MemoryOf(bound));
}

void BoundState::BindRows(const std::string& key, const GivenArray& given,
                          RankRows rank_rows) {
  const py::array& array = given.array;
  if (array.ndim() == 0) Refuse(key, "rows need at least one axis");
  if (given.dtype) Refuse(key, "NumPy has no dtype for these rows");
  const py::dtype dtype = array.dtype();
  rows::RowForm form;
  if (dtype.has_fields()) {
    form.structs = FieldsOfNumpy(key, dtype);
    form.shape = {form.structs->stored_bytes};
    if (array.ndim() != 1) Refuse(key, "an array of structs has one axis");
  } else {
    const py::array none = array.attr("__getitem__")(py::slice(0, 0, 1));
    form.dtype = BindArray(Purpose::kSave, key, {none}).dtype;
    form.shape = ShapeOf(array);
    form.shape.erase(form.shape.begin());
  }
  if (NumElements(form.shape) == 0) {
    Refuse(key,
           "rows without elements have no number that belay could store "
           "(found an array of shape " +
               ShapeText(ShapeOf(array)) + "); store their number");
  }
  RowsCell& cell = NewCell(
      RowsCell{.array = {array, DenseNative(array)}, .dtype = form.dtype});
  cell.key = key;
  cell.target = array;
  cell.row_elements = NumElements(form.shape);
  cell.row_bytes = form.structs != nullptr
                       ? form.structs->bytes
                       : cell.row_elements * DTypeSize(form.dtype);
  const auto num_rows = static_cast<int64_t>(array.shape(0));
  auto* data = static_cast<char*>(const_cast<void*>(cell.array.memory.data()));
  if (purpose_ == Purpose::kRestore) {
    cell.bytes.assign(data, data + num_rows * cell.row_bytes);
    data = cell.bytes.data();
  }
  Shard shard = rows::ShardOf(form, data, num_rows * NumElements(form.shape),
                              std::move(rank_rows));
  shard.key = key;
  if (purpose_ == Purpose::kRestore) {
    shard.object = &cell;
    shard.access = &kRowsAccess;
  }
  AddShard(state_, std::move(shard));
}

void BoundState::BindRowsById(const std::string& key, py::handle rows) {
  const py::module_ numpy = py::module_::import("numpy");
  py::array ids = numpy.attr("asarray")(rows.attr("ids")).cast<py::array>();
  const char kind = ids.dtype().kind();
  const bool is_empty = ids.size() == 0;
  if (ids.ndim() != 1 || (kind != 'i' && kind != 'u' && !is_empty)) {
    Refuse(key, "ids: need whole numbers along one axis");
  }
  ids = numpy.attr("ascontiguousarray")(ids, "int64").cast<py::array>();
  const auto* const numbers = static_cast<const int64_t*>(ids.data());
  const auto count = static_cast<size_t>(ids.size());
  BindRows(key, ArrayIn(key, "belay.RowsById", rows.attr("array")),
           {.num_ids = [count] { return count; },
            .id = [numbers](size_t i) { return numbers[i]; },
            .count = rows.attr("count").cast<int64_t>()});
  std::get<RowsCell>(cells_.back()).ids = ids;
}

}  // namespace belay::python
