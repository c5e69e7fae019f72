// Values of the program that are computed from stored arrays: stacked, split,
// transposed, sliced, or computed by a custom function.
//
//   RestoreOptions options;
//   options.args = {
//       {"blocks/(.*)",
//        {.transform = Transform::Stack({"block0/\\1", "block1/\\1"})}},
//       {"query", {.transform = Transform::Split("qkv", 0, 3, 0)}},
//       {"head", {.transform = Transform::Transpose("lm_head")}}};
//
// A rank reads only the parts of stored arrays that its box depends on.

#ifndef BELAY_VALUES_TRANSFORM_H_
#define BELAY_VALUES_TRANSFORM_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace belay {

class Index;
class TransformFunction;
struct TransformNode;

// An expression of stored arrays. Value type; a copy shares its contents.
// Negative axes count from the last one. Mistakes, such as an axis that an
// array does not have, become errors of the restore.
class Transform {
 public:
  // Empty: the stored array is used unchanged.
  Transform() = default;
  // The stored array with this key. In RestoreArgs, \1 is the match of the
  // first group of `keys`.
  Transform(std::string_view stored_key);
  Transform(const std::string& stored_key)
      : Transform(std::string_view(stored_key)) {}
  Transform(const char* stored_key) : Transform(std::string_view(stored_key)) {}

  // Stacks arrays of the same shape along a new axis, axis `axis` of the
  // result. Local.
  static Transform Stack(std::vector<Transform> parts, int axis = 0);

  // Concatenates arrays along an axis; their other lengths must be equal.
  // Local.
  static Transform Concat(std::vector<Transform> parts, int axis = 0);

  // Part `part`, from 0, of `num_parts` equal parts along an axis. Local.
  static Transform Split(Transform x, int axis, int64_t num_parts,
                         int64_t part);

  // The elements [offset, offset + length) along an axis. Local.
  static Transform Narrow(Transform x, int axis, int64_t offset,
                          int64_t length);

  // Axis i of the result is axis axes[i] of the array; without `axes` their
  // order is reversed. Local.
  static Transform Transpose(Transform x, std::vector<int> axes = {});

  // x[index] with the rules of Python: slices with any step, integers, an
  // ellipsis, new axes; no masks. Local.
  static Transform Slice(Transform x, Index index);

  // Applies a custom function. Local.
  static Transform Apply(std::shared_ptr<const TransformFunction> function,
                         std::vector<Transform> inputs);

  // Returns whether this is empty. Local.
  bool empty() const { return node_ == nullptr; }

  // Returns a text such as `transpose("a"; 1, 0)`; "" if this is empty. Equal
  // texts mean equal functions. Local.
  std::string ToString() const;

  // Returns the keys of the stored arrays, each once, ascending. Local.
  std::vector<std::string> StoredKeys() const;

  friend bool operator==(const Transform& a, const Transform& b) {
    return a.node_ == b.node_ || a.ToString() == b.ToString();
  }

 private:
  friend struct TransformNode;

  explicit Transform(std::shared_ptr<const TransformNode> node)
      : node_(std::move(node)) {}

  std::shared_ptr<const TransformNode> node_;
};

}  // namespace belay

#endif  // BELAY_VALUES_TRANSFORM_H_
