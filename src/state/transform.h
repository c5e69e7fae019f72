// Transforms: determines the form of a result, and reads and computes it.

#ifndef BELAY_STATE_TRANSFORM_H_
#define BELAY_STATE_TRANSFORM_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "belay/arrays/box.h"
#include "belay/arrays/dtype.h"
#include "belay/arrays/indexing.h"
#include "belay/arrays/tensor.h"
#include "belay/extend/transform_function.h"
#include "belay/status.h"
#include "belay/values/transform.h"
#include "core/element_conversion.h"
#include "core/wire.h"

namespace belay {

struct TransformNode {
  enum class Kind : uint8_t {
    kStored = 0,
    kStack = 1,
    kConcat = 2,
    kSplit = 3,
    kNarrow = 4,
    kTranspose = 5,
    kSlice = 6,
    kApply = 7,
  };

  // Requires that the transform is not empty.
  static const TransformNode& Of(const Transform& transform) {
    return *transform.node_;
  }
  static Transform Make(TransformNode node);

  Kind kind = Kind::kStored;
  std::string key;                // kStored
  std::vector<Transform> inputs;  // all other kinds
  int axis = 0;
  int64_t first = 0;   // kSplit: index of the part; kNarrow: offset
  int64_t number = 0;  // kSplit: number of parts; kNarrow: length
  std::vector<int> axes = {};
  Index index = {};
  std::shared_ptr<const TransformFunction> function = nullptr;
};

// Replaces the stored keys of a transform.
Transform WithKeys(
    const Transform& transform,
    absl::FunctionRef<std::string(const std::string& key)> rename);

// Returns the key if the transform is just a stored array, else null.
const std::string* FindStoredKey(const Transform& transform);

template <typename Archive>
void Fields(Archive& archive, ArrayForm& form) {
  archive(form.dtype, form.shape);
}

// Returns the form of a stored array, or null.
using FindForm = absl::FunctionRef<const ArrayForm*(const std::string& key)>;

// Returns the form of the result. If the inputs differ in dtype, the result has
// that of the first input.
// Errors: InvalidArgument - an axis, a part or an index that the arrays do not
//   have, or shapes that do not match; NotFound - an array is not stored;
//   FailedPrecondition - a string; and those of the program's function.
StatusOr<ArrayForm> ComputeForm(const Transform& transform, FindForm find);

// Limits the memory that transforms can demand: even a few of them may use the
// same array many times.
class MadeBytes {
 public:
  // Counts a stored array once, no matter how many transforms use it.
  void AddStored(const std::string& key, const ArrayForm& form);
  void AddMade(const ArrayForm& form);

  // Errors: InvalidArgument - `who` makes more than 64 MiB plus 1024 bytes per
  //   stored byte.
  Status Check(std::string_view who) const;

 private:
  std::set<std::string> keys_;
  double stored_ = 0;
  double made_ = 0;
};

// The positions of a part along one axis of an array: start, start + step, ...
// as the index along axis `along` of the part increases. If `along` is -1, only
// start.
struct AxisView {
  int along = -1;
  int64_t start = 0;
  int64_t step = 1;

  friend bool operator==(const AxisView&, const AxisView&) = default;
};

// Part of a box, and the positions of its elements in an array. `part` is
// relative to the first element of the box.
struct View {
  Box part;
  std::vector<AxisView> axes;  // one per axis of the array

  friend bool operator==(const View&, const View&) = default;
};

// A transform takes two steps: PlanTransform returns the boxes of stored arrays
// to read, and FinishTransform copies and computes after they were read.
// Elements with the same arrangement in the target and in a stored array are
// read directly into the target.

// A read of a box of a stored array into `data`, as elements of `dtype`.
struct TransformRead {
  std::string key;
  ArrayForm stored;
  Box box;
  DType dtype = DType::kU8;
  std::byte* data = nullptr;
};

// Dense memory, and the offset of a box in it.
struct TransformTarget {
  std::byte* data = nullptr;
  DType dtype = DType::kU8;
  Shape shape;
  Shape offset;
};

struct TransformInput;

// A copy to make after all reads.
struct TransformMove {
  TransformTarget target;
  View view;
  Box covered;  // the box that `elements` has
  Tensor elements;
  // Computes `elements`; null if they are read.
  std::unique_ptr<TransformInput> computed;
};

// The inputs of a program's function for a box of its result.
struct TransformInput {
  std::shared_ptr<const TransformFunction> function;
  DType dtype = DType::kU8;  // of the result
  std::vector<Box> boxes;    // per input
  std::vector<Tensor> inputs;
  std::vector<TransformMove> moves;  // fill `inputs`
};

// Plans to write `box` of the result to a target, and adds the required reads
// to `reads`. If `may_cast`, elements may have another dtype than the target.
// Errors: those of ComputeForm; FailedPrecondition - an array has another
//   dtype; what Needs returns or throws; InvalidArgument - Needs does not
//   return a valid box for each input; ResourceExhausted.
Status PlanTransform(const Transform& transform, const Box& box,
                     const TransformTarget& target, bool may_cast,
                     FindForm find, std::vector<TransformMove>& moves,
                     std::vector<TransformRead>& reads);

// The losses when the results of one function are converted to another dtype.
struct ComputedLosses {
  DType from = DType::kU8;
  DType to = DType::kU8;
  ConversionLosses losses;
};

// Makes the copies and computations, frees the memory, and adds the losses of
// converting computed elements.
// Errors: what Compute returns or throws; ResourceExhausted.
Status FinishTransform(std::vector<TransformMove> moves,
                       std::vector<ComputedLosses>& losses);

}  // namespace belay

#endif  // BELAY_STATE_TRANSFORM_H_
