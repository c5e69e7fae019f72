#include "belay/values/transform.h"

#include <set>
#include <utility>

#include "base/catch_exceptions.h"
#include "base/text.h"
#include "transform/node.h"

namespace belay {
namespace {

using Node = TransformNode;
using Kind = Node::Kind;

std::string Numbers(const std::vector<int>& numbers) {
  std::string text;
  for (const int number : numbers) {
    text += Cat(text.empty() ? "" : ", ", number);
  }
  return text;
}

std::string NameOf(const Node& node) {
  switch (node.kind) {
    case Kind::kStack:
      return "stack";
    case Kind::kConcat:
      return "concat";
    case Kind::kSplit:
      return "split";
    case Kind::kNarrow:
      return "narrow";
    case Kind::kTranspose:
      return "transpose";
    case Kind::kSlice:
      return "slice";
    case Kind::kStored:
    case Kind::kApply:
      break;
  }
  if (node.function == nullptr) return "null";
  return CatchExceptions([&] { return node.function->description(); })
      .value_or("?");
}

std::string ParametersOf(const Node& node) {
  switch (node.kind) {
    case Kind::kStack:
    case Kind::kConcat:
      return Cat("; axis ", node.axis);
    case Kind::kSplit:
      return Cat("; axis ", node.axis, ", part ", node.first, " of ",
                 node.number);
    case Kind::kNarrow:
      return Cat("; axis ", node.axis, ", ", node.number, " from ", node.first);
    case Kind::kTranspose:
      return node.axes.empty() ? "" : Cat("; ", Numbers(node.axes));
    case Kind::kSlice:
      return Cat("; [", IndexText(node.index), "]");
    case Kind::kStored:
    case Kind::kApply:
      break;
  }
  return "";
}

void Collect(const Transform& transform, std::set<std::string>& keys) {
  if (transform.empty()) return;
  const Node& node = TransformNode::Of(transform);
  if (node.kind == Kind::kStored) keys.insert(node.key);
  for (const Transform& input : node.inputs) Collect(input, keys);
}

}  // namespace

Transform TransformNode::Make(TransformNode node) {
  return Transform(std::make_shared<const Node>(std::move(node)));
}

Transform::Transform(std::string_view stored_key)
    : Transform(
          Node::Make({.kind = Kind::kStored, .key = std::string(stored_key)})) {
}

Transform Transform::Stack(std::vector<Transform> parts, int axis) {
  return Node::Make(
      {.kind = Kind::kStack, .inputs = std::move(parts), .axis = axis});
}

Transform Transform::Concat(std::vector<Transform> parts, int axis) {
  return Node::Make(
      {.kind = Kind::kConcat, .inputs = std::move(parts), .axis = axis});
}

Transform Transform::Split(Transform x, int axis, int64_t num_parts,
                           int64_t part) {
  return Node::Make({.kind = Kind::kSplit,
                     .inputs = {std::move(x)},
                     .axis = axis,
                     .first = part,
                     .number = num_parts});
}

Transform Transform::Narrow(Transform x, int axis, int64_t offset,
                            int64_t length) {
  return Node::Make({.kind = Kind::kNarrow,
                     .inputs = {std::move(x)},
                     .axis = axis,
                     .first = offset,
                     .number = length});
}

Transform Transform::Transpose(Transform x, std::vector<int> axes) {
  return Node::Make({.kind = Kind::kTranspose,
                     .inputs = {std::move(x)},
                     .axes = std::move(axes)});
}

Transform Transform::Slice(Transform x, Index index) {
  return Node::Make({.kind = Kind::kSlice,
                     .inputs = {std::move(x)},
                     .index = std::move(index)});
}

Transform Transform::Apply(std::shared_ptr<const TransformFunction> function,
                           std::vector<Transform> inputs) {
  return Node::Make({.kind = Kind::kApply,
                     .inputs = std::move(inputs),
                     .function = std::move(function)});
}

std::string Transform::ToString() const {
  if (empty()) return "";
  if (node_->kind == Kind::kStored) return Cat("\"", node_->key, "\"");
  std::string inputs;
  for (const Transform& input : node_->inputs) {
    inputs += Cat(inputs.empty() ? "" : ", ", input.ToString());
  }
  return Cat(NameOf(*node_), "(", inputs, ParametersOf(*node_), ")");
}

std::vector<std::string> Transform::StoredKeys() const {
  std::set<std::string> keys;
  Collect(*this, keys);
  return {keys.begin(), keys.end()};
}

Transform WithKeys(
    const Transform& transform,
    absl::FunctionRef<std::string(const std::string& key)> rename) {
  if (transform.empty()) return transform;
  Node node = TransformNode::Of(transform);
  if (node.kind == Kind::kStored) node.key = rename(node.key);
  for (Transform& input : node.inputs) input = WithKeys(input, rename);
  return Node::Make(std::move(node));
}

const std::string* StoredKeyOf(const Transform& transform) {
  if (transform.empty()) return nullptr;
  const Node& node = TransformNode::Of(transform);
  return node.kind == Kind::kStored ? &node.key : nullptr;
}

}  // namespace belay
