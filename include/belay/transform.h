// Values of the program as functions of stored arrays: stacked, split,
// transposed, sliced, or computed by a function of the program.
//
//   RestoreOptions options;
//   options.args = {
//       {"blocks/(.*)",
//        {.transform = Transform::Stack({"block0/\\1", "block1/\\1"})}},
//       {"query", {.transform = Transform::Split("qkv", 0, 3, 0)}},
//       {"head", {.transform = Transform::Transpose("lm_head")}}};
//
// A rank reads only those parts of stored arrays from which the box that it
// wants follows.

#ifndef BELAY_TRANSFORM_H_
#define BELAY_TRANSFORM_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "belay/box.h"
#include "belay/dtype.h"
#include "belay/indexing.h"
#include "belay/status.h"
#include "belay/tensor.h"

namespace belay {

// The element type and the shape of a whole array.
struct ArrayForm {
  DType dtype = DType::kU8;
  Shape shape;

  friend bool operator==(const ArrayForm&, const ArrayForm&) = default;
};

// A function of arrays that a program defines. It must be pure: the boxes that
// ranks want, and how they are cut, must not change any element. Its functions
// may be called on some ranks only, and from several threads; what they return
// or throw is the error of the restore, on all ranks.
class TransformFunction {
 public:
  virtual ~TransformFunction() = default;

  // Returns a name and the parameters; must be equal on all ranks. Local.
  virtual std::string description() const = 0;

  // Returns the form of the result. Local.
  virtual StatusOr<ArrayForm> Result(
      const std::vector<ArrayForm>& inputs) const = 0;

  // Returns one box of each input, from which the box `wanted` of the result is
  // computed. An empty box is not read. A function that needs two boxes of one
  // array takes the array as two inputs. Local.
  virtual StatusOr<std::vector<Box>> Needs(const std::vector<ArrayForm>& inputs,
                                           const Box& wanted) const = 0;

  // Computes the box `wanted` of the result, which has the shape of the box and
  // the dtype that Result has said. inputs[i] holds the elements of boxes[i],
  // as Needs has returned them, with the stored dtype. Local.
  virtual Status Compute(const std::vector<Tensor>& inputs,
                         const std::vector<Box>& boxes, const Box& wanted,
                         Tensor& result) const = 0;
};

struct TransformNode;

// An expression of stored arrays. A value; a copy shares what it consists of.
// Axes may be negative: then they count from the last one. A mistake, such as
// an axis that an array does not have, is the error of the restore.
class Transform {
 public:
  // Nothing: the stored array is taken as it is.
  Transform() = default;
  // The stored array with this key. In RestoreArgs, \1 is what the first group
  // of `keys` matches.
  Transform(std::string_view stored_key);
  Transform(const std::string& stored_key)
      : Transform(std::string_view(stored_key)) {}
  Transform(const char* stored_key) : Transform(std::string_view(stored_key)) {}

  // Arrays of one shape along a new axis, which is the axis number `axis` of
  // the result. Local.
  static Transform Stack(std::vector<Transform> parts, int axis = 0);

  // Arrays one behind the other along an axis; their other lengths are equal.
  // Local.
  static Transform Concat(std::vector<Transform> parts, int axis = 0);

  // The part number `part`, from 0, of `num_parts` equal ones along an axis.
  // Local.
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

  // A function of the program. Local.
  static Transform Apply(std::shared_ptr<const TransformFunction> function,
                         std::vector<Transform> inputs);

  // Whether it is nothing. Local.
  bool empty() const { return node_ == nullptr; }

  // Returns it as text, such as `transpose("a"; 1, 0)`; "" for nothing. Equal
  // texts are equal functions. Local.
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

#endif  // BELAY_TRANSFORM_H_
