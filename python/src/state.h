// Converts the state of a Python program to a belay State, and back.

#ifndef BELAY_PYTHON_STATE_H_
#define BELAY_PYTHON_STATE_H_

#include <pybind11/pybind11.h>

#include <algorithm>
#include <complex>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#include "arrays.h"
#include "belay/comm.h"
#include "belay/extend/row_shards.h"
#include "belay/handlers/value_tree.h"
#include "belay/state.h"
#include "big_int.h"
#include "forms.h"

namespace belay::python {

// Rows of this rank. A restore may change their number.
struct RowsCell {
  BoundArray array;
  // In a restore: the rows, with `row_elements` elements each.
  std::vector<char> bytes;
  std::string key;
  DType dtype = DType::kU8;
  int64_t row_elements = 1;  // as stored
  int64_t row_bytes = 1;     // in memory
  bool is_scalar = false;    // a single number
  py::array ids;             // of rows with ids
  py::object target;         // the passed array, filled if the rows fit
};

// A scalar of NumPy, in an array without axes, or a list of numbers.
struct NumpyScalarCell {
  py::array array;
};

// Nested dicts, lists and tuples whose values belay can read or fill. Borrows
// the arrays, and keeps them alive. All functions need the interpreter's lock.
class BoundState {
 public:
  BoundState(Purpose purpose, const Comm& comm)
      : purpose_(purpose), rank_(comm.rank()), num_ranks_(comm.size()) {}
  BoundState(const BoundState&) = delete;
  BoundState& operator=(const BoundState&) = delete;

  // Adds all values of `state`. Throws a StatusError or a Python exception.
  void Bind(py::handle state);

  // Returns a number for each list, tuple and empty dict, ascending. How many
  // elements a restore returns for these depends on the checkpoint. The number
  // is the same on ranks where the key and the length are the same.
  std::set<uint64_t> open_ends() const;
  // Sets the open ends that all ranks have. The lengths of others do not
  // change.
  void set_agreed_ends(std::set<uint64_t> ends) {
    agreed_ends_ = std::move(ends);
  }

  // Binds the same state again, to restore a step with these keys, ascending.
  // Lists of plain values grow to the stored length, and empty dicts get
  // everything that is stored below them. Throws as Bind, and also if any other
  // sequence has fewer elements than are stored.
  void BindStored(py::handle state, std::vector<std::string> stored_keys);

  // Keys below these may be absent from a checkpoint: those of each
  // belay._values.IfStored.
  const std::vector<std::string>& optional() const { return optional_; }

  // Sets the keys that were not stored, ascending. Returns those that are not
  // optional.
  std::vector<std::string> TakeMissing(std::vector<std::string> missing);

  // Stays valid, with everything that it borrows, as long as this object
  // exists.
  State& state() { return state_; }

  // For SavedState. Replaces the value of a cell, by its number, with another
  // single value; returns false if the cell cannot hold it.
  bool SetSingle(size_t cell, py::handle value);
  // The same for a list of numbers.
  bool SetNumbers(size_t cell, py::handle list);
  // Sets the current address of the elements of a dense array, by its cell.
  void SetData(size_t cell, void* data);
  // Returns whether belay reads a copy of any array.
  bool has_copies() const;
  // Releases all arrays; `state` still refers to their elements.
  void ReleaseArrays();

  // Call after a restore: fills the arrays that belay could not fill directly,
  // and returns a new structure with the same arrays and the restored values.
  // The passed dicts and lists also get them.
  py::object Rebuild();

  // Call before Rebuild, if needs_forms() is true: sets the Python forms that
  // the step stores.
  bool needs_forms() const;
  void set_forms(StoredForms forms) { forms_ = std::move(forms); }

 private:
  // The result of a restore at one place of the structure.
  struct Node {
    enum class Kind : uint8_t {
      kKept,
      kCell,
      kDict,
      kList,
      kTuple,  // and other sequences
      kOpen,   // gets everything that is stored
      kWrapper,
      kIfStored
    };

    Kind kind = Kind::kKept;
    py::object given;
    int64_t cell = -1;  // -1: none
    std::string key;    // of a kIfStored or kOpen
    std::vector<std::pair<py::object, Node>> items;
    bool takes_all = true;   // of a kOpen: even more than were passed
    bool is_filled = false;  // the passed object has the restored values
  };
  struct TextCell {
    std::string text;
  };
  struct BytesCell {
    std::vector<uint8_t> bytes;
  };
  // A None.
  struct TreeCell {
    std::string key;
    ValueTree tree;
  };
  using Cell = std::variant<bool, int64_t, IntCell, double,
                            std::complex<double>, TextCell, BytesCell,
                            NumpyScalarCell, BoundArray, RowsCell, TreeCell>;

  Node BindNode(const std::string& key, py::handle value,
                const PerRankOptions* per_rank);
  // Returns the array in a wrapper; an error names the wrapper's argument.
  GivenArray ArrayIn(const std::string& key, const char* wrapper,
                     py::handle array) const;
  Shape ShapeIn(const std::string& key, const char* name,
                py::handle numbers) const;
  Node BindValue(const std::string& key, py::handle value,
                 const PerRankOptions* per_rank);
  Node BindContainer(const std::string& key, py::handle value,
                     const PerRankOptions* per_rank);
  Node BindDict(const std::string& key, py::handle dict,
                const PerRankOptions* per_rank);
  Node BindSequence(const std::string& key, py::handle sequence,
                    const PerRankOptions* per_rank);
  Node BindSet(const std::string& key, py::handle set);
  // Binds an empty container that gets everything that is stored.
  Node BindOpen(const std::string& key, py::handle given, bool is_stored);
  // Returns the name of a key of a dict. Throws if a restore could not rebuild
  // the key, or if the name is already in `taken`, the names of the dict.
  std::string NameIn(const std::string& key, py::handle name,
                     std::unordered_set<std::string>& taken, bool& has_ints);
  // In a save: these store what a restore needs to know about a container.
  void AddForm(std::string form_key, const std::string& typestr);
  void AddKind(const std::string& key, py::handle container);
  // For a dict whose keys have these names.
  void AddForms(const std::string& key, const Node& node,
                const std::vector<std::string>& names, bool has_ints);
  // For arrays directly inside a container; without names, a sequence.
  void AddTensors(const std::string& key, const Node& node,
                  const std::vector<std::string>& names);
  // Returns the name.
  std::string AddName(const std::string& key, py::handle name);
  void WarnOfClass(const std::string& key, py::handle container,
                   const std::string& kind) const;
  // Records an open end with `length` elements; returns whether all ranks have
  // it.
  bool IsAgreedEnd(const std::string& key, Node::Kind kind, size_t length);
  // Returns whether the step has more elements for an open end that all ranks
  // have.
  bool AnyGrows() const;
  // Adds the stored elements of a sequence that it does not have.
  void BindRest(const std::string& key, Node& node);
  // Returns the number of elements stored below a key. Throws if they do not
  // form a list.
  int64_t NumStored(const std::string& key, int64_t given = 0) const;
  static bool IsPlain(const Node& node);
  // Returns the largest number directly below a key plus one, and how many
  // numbers there are.
  std::pair<int64_t, int64_t> StoredNumbers(const std::string& key) const;
  bool IsStoredBelow(const std::string& key) const;
  bool IsStored(const std::string& key) const;
  Node BindWrapper(const std::string& key, py::handle value);
  Node BindIfStored(const std::string& key, py::handle value);
  Node BindPerRank(const std::string& key, py::handle value);
  Node BindFromRank0(const std::string& key, py::handle value);
  // Returns whether `value` is a single value.
  bool BindScalar(const std::string& key, py::handle value,
                  const PerRankOptions* per_rank);
  void BindInt(const std::string& key, py::handle value,
               const PerRankOptions* per_rank);
  void BindNumpyScalar(const std::string& key, py::handle value,
                       const PerRankOptions* per_rank);
  void BindArrayValue(const std::string& key, const GivenArray& given,
                      const PerRankOptions* per_rank);
  // Adds an array that every rank holds.
  void AddWhole(const std::string& key, const Shape& shape,
                const Memory& memory);
  void BindPiece(const std::string& key, py::handle piece);
  Node BindPieces(const std::string& key, py::handle pieces);
  void RefuseListOfPieces(const std::string& key,
                          const py::tuple& values) const;
  void BindLaidOut(const std::string& key, py::handle laid_out);
  void BindRows(const std::string& key, const GivenArray& given,
                RankRows rank_rows);
  void BindFlatRange(const std::string& key, py::handle range);
  void BindRowsById(const std::string& key, py::handle rows);
  void BindNone(const std::string& key, bool is_per_rank);
  void BindNumbers(const std::string& key, const py::tuple& numbers);

  Node CellNode(py::handle given, Node::Kind kind) const;
  GivenArray ArrayFrom(const std::string& key, py::handle object) const;
  // Throws unless the key is new and not empty.
  void TakeKey(const std::string& key);
  template <typename T>
  T& NewCell(T value) {
    return std::get<T>(cells_.emplace_back(std::move(value)));
  }
  template <typename T>
  void AddScalar(const std::string& key, T value,
                 const PerRankOptions* per_rank);
  py::object Rebuilt(Node& node);
  py::object RebuiltOpen(const Node& node);
  // Puts the restored elements into the passed container, if it is mutable.
  static void FillOpen(Node& node, const py::object& found);
  // Returns the dict without missing keys.
  py::object RebuiltStored(const std::string& key, Node& node);
  bool IsMissing(const std::string& key) const;
  py::object ValueOf(Cell& cell);
  // Fills and returns the passed array, or returns a new one if the number of
  // rows differs.
  py::object RowsOf(RowsCell& cell);
  void WarnOfUnfilled();
  [[noreturn]] void Refuse(const std::string& key,
                           const std::string& cause) const;

  const Purpose purpose_;
  const int rank_;
  const int num_ranks_;
  bool is_from_rank0_ = false;  // while binding the value of a FromRank0
  State state_;
  Node root_;
  std::deque<Cell> cells_;  // a deque does not move its elements
  std::unordered_set<std::string> keys_;
  struct OpenEnd {
    uint64_t number = 0;
    std::string key;
    int64_t length = 0;
    bool is_dict = false;
  };
  std::vector<OpenEnd> open_ends_;
  bool has_open_ = false;                  // a kOpen
  std::unordered_set<std::string> plain_;  // sequences of plain values
  bool has_grown_ = false;                 // to a stored length
  bool knows_stored_ = false;              // BindStored was called
  bool has_unbound_ = false;               // lists of numbers not yet bound
  std::set<uint64_t> agreed_ends_;
  std::vector<std::string> stored_keys_;  // ascending
  std::vector<std::string> optional_;
  std::vector<std::string> missing_;   // ascending
  std::vector<std::string> unfilled_;  // passed arrays
  StoredForms forms_;
  std::map<std::string, TypeHandlerPtr> form_handlers_;  // by typestr
  std::vector<PyObject*> inside_;  // containers being bound
};

// Returns the key of a value inside another one.
std::string Joined(const std::string& key, const std::string& name);

// Raises an error if a structure is nested too deeply.
class RecursionGuard {
 public:
  RecursionGuard() {
    if (Py_EnterRecursiveCall(" in the state") != 0) {
      throw py::error_already_set();
    }
  }
  RecursionGuard(const RecursionGuard&) = delete;
  RecursionGuard& operator=(const RecursionGuard&) = delete;
  ~RecursionGuard() { Py_LeaveRecursiveCall(); }
};

// Returns the common type of all elements of a list or a tuple, which is then
// stored as one array: 'i' for ints of at most 64 bits, 'd' for floats, '?' for
// bools; 0 for other or no elements.
char NumbersIn(py::handle list);

// Returns whether the value is a NumPy scalar.
bool IsNumpyScalar(py::handle value);

// Returns whether the value is a PyTorch tensor.
bool IsTensor(py::handle value);

// Returns whether the value is a mapping, or a list, a tuple or a deque. Local.
bool IsMapping(py::handle value);
bool IsSequence(py::handle value);

// Returns an array, or the memory of a PyTorch tensor on the CPU.
GivenArray GivenArrayOf(py::handle value);

// Returns a tensor that shares the memory of an array.
py::object TorchTensorOf(const py::object& array);

// Returns whether a tree has values that need forms in addition to their dtype
// and shape.
bool MayHaveForms(const ValueTree& tree);

// Returns nested containers, arrays and single values, according to `forms`.
// Moves values out of `tree`, whose key is `key`. Structs without fields are
// rows of bytes.
py::object ObjectOf(ValueTree& tree, const StoredForms& forms = {},
                    const std::string& key = "");

}  // namespace belay::python

#endif  // BELAY_PYTHON_STATE_H_
