#include "state/transform.h"

#include <numeric>
#include <set>
#include <utility>
#include <variant>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "belay/values/transform.h"
#include "core/catch_exceptions.h"
#include "core/status_macros.h"
#include "core/text.h"

namespace belay {
namespace {

using Node = TransformNode;
using Kind = Node::Kind;

StatusOr<ArrayForm> FormOfStored(const Node& node, FindForm find) {
  const ArrayForm* form = find(node.key);
  if (form == nullptr) {
    return absl::NotFoundError(
        Cat("no array is stored under \"", node.key, "\""));
  }
  if (form->dtype == DType::kString) {
    return absl::FailedPreconditionError(
        Cat("\"", node.key, "\" is a text (need an array of numbers)"));
  }
  return *form;
}

Status CheckParts(const Node& node) {
  if (!node.inputs.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError("it has no parts (need at least 1)");
}

Status OtherShape(const Node& node, size_t part, const Shape& need,
                  const Shape& found) {
  return absl::InvalidArgumentError(
      Cat("the shapes do not match (need ", ShapeText(need), " as of ",
          node.inputs[0].ToString(), ", found ", ShapeText(found), " of ",
          node.inputs[part].ToString(), ")"));
}

StatusOr<ArrayForm> FormOfStack(const Node& node,
                                const std::vector<ArrayForm>& inputs) {
  BELAY_RETURN_IF_ERROR(CheckParts(node));
  ArrayForm form = inputs[0];
  BELAY_ASSIGN_OR_RETURN(const size_t axis,
                         AxisOf(node.axis, form.shape.size() + 1));
  for (size_t i = 1; i < inputs.size(); ++i) {
    if (inputs[i].shape == form.shape) continue;
    return OtherShape(node, i, form.shape, inputs[i].shape);
  }
  form.shape.insert(form.shape.begin() + static_cast<std::ptrdiff_t>(axis),
                    std::ssize(inputs));
  return form;
}

StatusOr<ArrayForm> FormOfConcat(const Node& node,
                                 const std::vector<ArrayForm>& inputs) {
  BELAY_RETURN_IF_ERROR(CheckParts(node));
  ArrayForm form = inputs[0];
  BELAY_ASSIGN_OR_RETURN(const size_t axis,
                         AxisOf(node.axis, form.shape.size()));
  for (size_t i = 1; i < inputs.size(); ++i) {
    Shape shape = inputs[i].shape;
    const bool fits = shape.size() == form.shape.size();
    if (fits) {
      const int64_t length = std::exchange(shape[axis], inputs[0].shape[axis]);
      if (shape == inputs[0].shape) {
        form.shape[axis] += length;
        continue;
      }
    }
    return OtherShape(node, i, inputs[0].shape, inputs[i].shape);
  }
  return form;
}

StatusOr<ArrayForm> FormOfApply(const Node& node,
                                const std::vector<ArrayForm>& inputs) {
  if (node.function == nullptr) {
    return absl::InvalidArgumentError("the function is null");
  }
  BELAY_ASSIGN_OR_RETURN(ArrayForm form, CatchExceptions([&] {
                           return node.function->Result(inputs);
                         }));
  if (form.dtype == DType::kString ||
      !IsKnownDType(static_cast<uint8_t>(form.dtype))) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "the result is not an array of numbers (found dtype %d)",
        static_cast<int>(form.dtype)));
  }
  return form;
}

StatusOr<ArrayForm> FormOfNode(const Node& node, FindForm find) {
  if (node.kind == Kind::kStored) return FormOfStored(node, find);
  BELAY_ASSIGN_OR_RETURN(const std::vector<ArrayForm> inputs,
                         InputForms(node, find));
  if (node.kind == Kind::kStack) return FormOfStack(node, inputs);
  if (node.kind == Kind::kConcat) return FormOfConcat(node, inputs);
  if (node.kind == Kind::kApply) return FormOfApply(node, inputs);
  BELAY_RETURN_IF_ERROR(CheckParts(node));
  ArrayForm form = inputs[0];
  if (node.kind == Kind::kSlice) {
    BELAY_ASSIGN_OR_RETURN(const Selection selection,
                           SelectionOf(node, form.shape));
    form.shape = selection.result_shape;
    return form;
  }
  if (node.kind == Kind::kTranspose) {
    BELAY_ASSIGN_OR_RETURN(const std::vector<size_t> axes,
                           AxesOf(node, form.shape.size()));
    for (size_t i = 0; i < axes.size(); ++i) {
      form.shape[i] = inputs[0].shape[axes[i]];
    }
    return form;
  }
  BELAY_ASSIGN_OR_RETURN(const AxisPart part, PartOf(node, form.shape));
  form.shape[part.axis] = part.length;
  return form;
}

}  // namespace

StatusOr<std::vector<ArrayForm>> InputForms(const Node& node, FindForm find) {
  std::vector<ArrayForm> forms;
  for (const Transform& input : node.inputs) {
    BELAY_ASSIGN_OR_RETURN(forms.emplace_back(), FormOf(input, find));
  }
  return forms;
}

StatusOr<ArrayForm> FormOf(const Transform& transform, FindForm find) {
  if (transform.empty()) {
    return absl::InvalidArgumentError("an input is empty");
  }
  StatusOr<ArrayForm> form = FormOfNode(TransformNode::Of(transform), find);
  if (form.ok()) {
    const Status sound = CheckedNumElements(form->shape).status();
    if (!sound.ok()) form = sound;
  }
  // An inner one has said what it is about.
  if (form.ok() || form.status().message().rfind("in ", 0) == 0) return form;
  return Status(form.status().code(),
                Cat("in ", transform.ToString(), ": ",
                    std::string(form.status().message())));
}

StatusOr<size_t> AxisOf(int axis, size_t num_axes) {
  const auto size = static_cast<int64_t>(num_axes);
  const int64_t counted = axis < 0 ? axis + size : axis;
  if (counted >= 0 && counted < size) return static_cast<size_t>(counted);
  if (num_axes == 0) {
    return absl::InvalidArgumentError(
        absl::StrFormat("a number has no axes (found axis %d)", axis));
  }
  return absl::InvalidArgumentError(absl::StrFormat(
      "there is no axis %d (need %d to %d)", axis, -size, size - 1));
}

StatusOr<std::vector<size_t>> AxesOf(const Node& transpose, size_t num_axes) {
  std::vector<size_t> axes(num_axes);
  std::iota(axes.rbegin(), axes.rend(), size_t{0});
  if (transpose.axes.empty()) return axes;
  std::vector<bool> is_taken(num_axes);
  bool is_sound = transpose.axes.size() == num_axes;
  for (size_t i = 0; i < num_axes && is_sound; ++i) {
    BELAY_ASSIGN_OR_RETURN(axes[i], AxisOf(transpose.axes[i], num_axes));
    is_sound = !is_taken[axes[i]];
    is_taken[axes[i]] = true;
  }
  if (is_sound) return axes;
  return absl::InvalidArgumentError(
      absl::StrFormat("each axis has to be named once (need 0 to %d, found %s)",
                      num_axes - 1, absl::StrJoin(transpose.axes, ", ")));
}

StatusOr<Selection> SelectionOf(const Node& slice, const Shape& shape) {
  for (const IndexItem& item : slice.index) {
    if (!std::holds_alternative<const Tensor*>(item)) continue;
    return absl::InvalidArgumentError("a slice takes no masks");
  }
  return Select(shape, slice.index);
}

StatusOr<AxisPart> PartOf(const Node& node, const Shape& shape) {
  AxisPart part;
  BELAY_ASSIGN_OR_RETURN(part.axis, AxisOf(node.axis, shape.size()));
  const int64_t length = shape[part.axis];
  if (node.kind == Kind::kNarrow) {
    part.offset = node.first;
    part.length = node.number;
    if (part.offset >= 0 && part.length >= 0 && part.offset <= length &&
        part.length <= length - part.offset) {
      return part;
    }
    return absl::InvalidArgumentError(absl::StrFormat(
        "the part leaves its axis (need %d from %d, found %d in all)",
        part.length, part.offset, length));
  }
  if (node.number < 1 || node.first < 0 || node.first >= node.number) {
    return absl::InvalidArgumentError(
        absl::StrFormat("there is no such part (need 0 to %d, found %d)",
                        node.number - 1, node.first));
  }
  if (length % node.number != 0) {
    return absl::InvalidArgumentError(
        absl::StrFormat("the axis has no equal parts (need a multiple of %d, "
                        "found %d)",
                        node.number, length));
  }
  part.length = length / node.number;
  part.offset = node.first * part.length;
  return part;
}

// --- Transform ---

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
