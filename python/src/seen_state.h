// Speeds up repeated saves of the same values: a save reuses the previous list
// if every value is still in the same place.

#ifndef BELAY_PYTHON_SEEN_STATE_H_
#define BELAY_PYTHON_SEEN_STATE_H_

#include <pybind11/pybind11.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "arrays.h"
#include "state.h"

namespace belay::python {

// Records where the values of a state are. Everything that a list uses of an
// array is compared (dtype, shape, strides, alignment) or looked up again (the
// address of dense elements). Identities are never compared, so an array that
// was resized, replaced or freed cannot be mistaken for another one.
class SeenState {
 public:
  // Remembers the state. Returns false if a value is of a kind that Matches
  // does not know, such as rows.
  bool Record(py::handle state);

  // Returns whether the state is the same as recorded. If so, copies single
  // values and addresses to `bound`, which has listed the state, and keeps the
  // arrays alive until Release.
  bool Matches(py::handle state, BoundState& bound);

  void Release() { held_.clear(); }

 private:
  struct Value {
    py::object type;
    py::object name;      // key in its dict; null outside dicts
    Py_ssize_t size = 0;  // of a dict, list or tuple
    char numbers = 0;     // of a list or tuple, see NumbersIn
    // Of an array, possibly in a wrapper.
    const void* data = nullptr;
    py::object numpy_dtype;
    std::optional<DType> dtype;
    int flags = 0;
    std::vector<py::ssize_t> shape_strides;
    // Of a wrapper.
    Shape global_shape;
    Shape offset;
    py::object layout;
  };

  // These return whether the value is unchanged or, while recording, whether
  // its kind is known.
  bool Visit(py::handle name, py::handle value);
  bool VisitDict(Value& seen, py::handle dict);
  bool VisitSequence(Value& seen, py::handle sequence);
  bool VisitPiece(Value& seen, py::handle piece);
  bool VisitPieces(Value& seen, py::handle pieces);
  bool VisitLaidOut(Value& seen, py::handle laid_out);
  bool VisitArray(Value& seen, py::handle array);
  bool VisitSingle(py::handle value);
  bool VisitShape(Shape& seen, py::handle numbers) const;

  std::vector<Value> values_;  // in the order of a visit
  // During a visit.
  BoundState* bound_ = nullptr;  // null while recording
  size_t next_ = 0;
  size_t cell_ = 0;  // each value except containers has one
  std::vector<py::object> held_;
};

// The state of the last save, for a communicator.
class SavedState {
 public:
  // Lists the state for a save. The result is valid until Release. Throws as
  // BoundState::Bind.
  BoundState& Bind(py::handle state, const Comm& comm);

  // Releases the arrays of the program.
  void Release();

  // Returns the bound state, which the next save will not use.
  std::unique_ptr<BoundState> Take();

 private:
  SeenState seen_;
  std::unique_ptr<BoundState> bound_;
  bool is_known_ = false;
  int misses_ = 0;   // in a row
  int skipped_ = 0;  // in a row, after misses
};

// Releases a SavedState at the end of a call.
class ReleaseAtEnd {
 public:
  explicit ReleaseAtEnd(SavedState& state) : state_(state) {}
  ReleaseAtEnd(const ReleaseAtEnd&) = delete;
  ReleaseAtEnd& operator=(const ReleaseAtEnd&) = delete;
  ~ReleaseAtEnd() { state_.Release(); }

 private:
  SavedState& state_;
};

}  // namespace belay::python

#endif  // BELAY_PYTHON_SEEN_STATE_H_
