// Transforms: the form of their result, and how it is read and computed.

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
  std::string key;                // of kStored
  std::vector<Transform> inputs;  // of all others
  int axis = 0;
  int64_t first = 0;   // kSplit: the part; kNarrow: the offset
  int64_t number = 0;  // kSplit: of parts; kNarrow: the length
  std::vector<int> axes = {};
  Index index = {};
  std::shared_ptr<const TransformFunction> function = nullptr;
};

// Replaces the stored keys of a transform.
Transform WithKeys(
    const Transform& transform,
    absl::FunctionRef<std::string(const std::string& key)> rename);

// Returns the key if the transform is a stored array as it is; else null.
const std::string* FindStoredKey(const Transform& transform);

template <typename Archive>
void Fields(Archive& archive, ArrayForm& form) {
  archive(form.dtype, form.shape);
}

// Returns the form of a stored array, or null.
using FindForm = absl::FunctionRef<const ArrayForm*(const std::string& key)>;

// Returns the form of the result. If parts differ in dtype, the first one
// counts.
// Errors: InvalidArgument - an axis, a part or an index that the arrays do not
//   have, shapes that do not match; NotFound - an array is not stored;
//   FailedPrecondition - a string; and those of the program's function.
StatusOr<ArrayForm> ComputeForm(const Transform& transform, FindForm find);

// Limits the memory that a checkpoint can demand: a few transforms may name one
// array again and again.
class MadeBytes {
 public:
  // A stored array counts once, however many transforms name it.
  void AddStored(const std::string& key, const ArrayForm& form);
  void AddMade(const ArrayForm& form);

  // Errors: InvalidArgument - `who` makes more than 64 MiB, and more than 1024
  //   bytes of each stored byte.
  Status Check(std::string_view who) const;

 private:
  std::set<std::string> keys_;
  double stored_ = 0;
  double made_ = 0;
};

// The positions of a part along one axis of an array: start, start + step, ...
// as the index along axis `along` of the part grows; if that is -1, only start.
struct AxisView {
  int along = -1;
  int64_t start = 0;
  int64_t step = 1;

  friend bool operator==(const AxisView&, const AxisView&) = default;
};

// The positions in an array of the elements of a part of a box. `part` counts
// from the first element of the box.
struct View {
  Box part;
  std::vector<AxisView> axes;  // of the array

  friend bool operator==(const View&, const View&) = default;
};

// A transform in two steps: PlanTransform returns the boxes of stored arrays
// that must be read, and FinishTransform copies and computes what was read.
// Elements that lie in the target as in a stored array are read in place.

// Reads a box of a stored array, as elements of `dtype`, to `data`.
struct TransformRead {
  std::string key;
  ArrayForm stored;
  Box box;
  DType dtype = DType::kU8;
  std::byte* data = nullptr;
};

// Dense memory, and the position of the first element of a box in it.
struct TransformTarget {
  std::byte* data = nullptr;
  DType dtype = DType::kU8;
  Shape shape;
  Shape offset;
};

struct TransformInput;

// A copy that is made once all is read.
struct TransformMove {
  TransformTarget target;
  View view;
  Box covered;  // by `elements`
  Tensor elements;
  // Computes the elements, if they are not read.
  std::unique_ptr<TransformInput> computed;
};

// The inputs of a program's function for a box of its result.
struct TransformInput {
  std::shared_ptr<const TransformFunction> function;
  DType dtype = DType::kU8;  // of the result
  std::vector<Box> boxes;    // by input
  std::vector<Tensor> inputs;
  std::vector<TransformMove> moves;  // into them
};

// Plans `box` of the result into a target, and adds what must be read to
// `reads`. `may_cast`: elements may have another dtype than the target.
// Errors: those of ComputeForm; FailedPrecondition - an array has another
//   dtype; what Needs returns or throws; InvalidArgument - it returns no boxes
//   of the inputs; ResourceExhausted.
Status PlanTransform(const Transform& transform, const Box& box,
                     const TransformTarget& target, bool may_cast,
                     FindForm find, std::vector<TransformMove>& moves,
                     std::vector<TransformRead>& reads);

// The losses of converting the results of one function to another dtype.
struct ComputedLosses {
  DType from = DType::kU8;
  DType to = DType::kU8;
  ConversionLosses losses;
};

// Copies and computes what was read, frees the memory, and adds the losses of
// conversions of computed elements.
// Errors: what Compute returns or throws; ResourceExhausted.
Status FinishTransform(std::vector<TransformMove> moves,
                       std::vector<ComputedLosses>& losses);

}  // namespace belay

#endif  // BELAY_STATE_TRANSFORM_H_
