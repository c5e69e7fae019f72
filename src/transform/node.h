// What a Transform consists of.

#ifndef BELAY_TRANSFORM_NODE_H_
#define BELAY_TRANSFORM_NODE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "belay/arrays/indexing.h"
#include "belay/status.h"
#include "belay/values/transform.h"

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

}  // namespace belay

#endif  // BELAY_TRANSFORM_NODE_H_
