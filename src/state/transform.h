// Transforms: what they consist of, and the form of what they make.

#ifndef BELAY_STATE_TRANSFORM_H_
#define BELAY_STATE_TRANSFORM_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "belay/arrays/box.h"
#include "belay/arrays/indexing.h"
#include "belay/status.h"
#include "belay/values/transform.h"
#include "core/selection.h"
#include "core/wire.h"

namespace belay {

// What a Transform consists of.

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

  // What a transform consists of, which is not empty.
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

// The same function of arrays whose keys `rename` gives.
Transform WithKeys(
    const Transform& transform,
    absl::FunctionRef<std::string(const std::string& key)> rename);

// The key, if the transform is a stored array as it is; else null.
const std::string* StoredKeyOf(const Transform& transform);

// The axes that the functions of a transform are about.

// Which axis is meant, counted from the first.
// Errors: InvalidArgument - none of so many.
StatusOr<size_t> AxisOf(int axis, size_t num_axes);

// For each axis of the result, the axis of the input.
// Errors: InvalidArgument - not each axis once.
StatusOr<std::vector<size_t>> AxesOf(const TransformNode& transpose,
                                     size_t num_axes);

// What a slice takes, without masks.
StatusOr<Selection> SelectionOf(const TransformNode& slice, const Shape& shape);

// The first element of a split or a narrow along its axis, and how many it has.
struct AxisPart {
  size_t axis = 0;
  int64_t offset = 0;
  int64_t length = 0;
};
StatusOr<AxisPart> PartOf(const TransformNode& node, const Shape& shape);

// The forms of the arrays in a transform.

template <typename Archive>
void Fields(Archive& archive, ArrayForm& form) {
  archive(form.dtype, form.shape);
}

// The form of a stored array, or null.
using FindForm = absl::FunctionRef<const ArrayForm*(const std::string& key)>;

// The form of the result. Of parts with several dtypes it has the first one.
// Errors: InvalidArgument - an axis, a part or an index that the arrays do not
//   have, shapes that do not go together; NotFound - an array is not stored;
//   FailedPrecondition - a text is; and those of the function of a program.
StatusOr<ArrayForm> FormOf(const Transform& transform, FindForm find);

// The forms of its inputs.
StatusOr<std::vector<ArrayForm>> InputForms(const TransformNode& node,
                                            FindForm find);

}  // namespace belay

#endif  // BELAY_STATE_TRANSFORM_H_
