#include "state/transform.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <set>
#include <utility>
#include <variant>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "belay/extend/transform_function.h"
#include "core/catch_exceptions.h"
#include "core/selection.h"
#include "core/status_macros.h"
#include "core/strided_copy.h"
#include "core/text.h"

namespace belay {
namespace {

using Node = TransformNode;
using Kind = Node::Kind;

// --- Axes ---

// Returns the axis, counted from the first.
// Errors: InvalidArgument - there is no such axis.
StatusOr<size_t> FindAxis(int axis, size_t num_axes) {
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

// Returns, for each axis of the result of a transpose, the axis of the input.
// Errors: InvalidArgument - not a permutation of the axes.
StatusOr<std::vector<size_t>> PermuteAxes(const Node& transpose,
                                          size_t num_axes) {
  std::vector<size_t> axes(num_axes);
  std::iota(axes.rbegin(), axes.rend(), size_t{0});
  if (transpose.axes.empty()) return axes;
  std::vector<bool> is_taken(num_axes);
  bool is_sound = transpose.axes.size() == num_axes;
  for (size_t i = 0; i < num_axes && is_sound; ++i) {
    BELAY_ASSIGN_OR_RETURN(axes[i], FindAxis(transpose.axes[i], num_axes));
    is_sound = !is_taken[axes[i]];
    is_taken[axes[i]] = true;
  }
  if (is_sound) return axes;
  return absl::InvalidArgumentError(absl::StrFormat(
      "each axis has to be named once (need 0 to %d, found %s)", num_axes - 1,
      Shortened(absl::StrJoin(transpose.axes, ", "))));
}

StatusOr<Selection> SelectSlice(const Node& slice, const Shape& shape) {
  for (const IndexItem& item : slice.index) {
    if (!std::holds_alternative<const Tensor*>(item)) continue;
    return absl::InvalidArgumentError("a slice takes no masks");
  }
  return Select(shape, slice.index);
}

// The range that a split or a narrow takes along its axis.
struct AxisPart {
  size_t axis = 0;
  int64_t offset = 0;
  int64_t length = 0;
};

StatusOr<AxisPart> FindAxisPart(const Node& node, const Shape& shape) {
  AxisPart part;
  BELAY_ASSIGN_OR_RETURN(part.axis, FindAxis(node.axis, shape.size()));
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

// --- Forms ---

StatusOr<ArrayForm> FindStoredForm(const Node& node, FindForm find) {
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

StatusOr<ArrayForm> FindStackForm(const Node& node,
                                  const std::vector<ArrayForm>& inputs) {
  BELAY_RETURN_IF_ERROR(CheckParts(node));
  ArrayForm form = inputs[0];
  BELAY_ASSIGN_OR_RETURN(const size_t axis,
                         FindAxis(node.axis, form.shape.size() + 1));
  for (size_t i = 1; i < inputs.size(); ++i) {
    if (inputs[i].shape == form.shape) continue;
    return OtherShape(node, i, form.shape, inputs[i].shape);
  }
  form.shape.insert(form.shape.begin() + static_cast<std::ptrdiff_t>(axis),
                    std::ssize(inputs));
  return form;
}

StatusOr<ArrayForm> FindConcatForm(const Node& node,
                                   const std::vector<ArrayForm>& inputs) {
  BELAY_RETURN_IF_ERROR(CheckParts(node));
  ArrayForm form = inputs[0];
  BELAY_ASSIGN_OR_RETURN(const size_t axis,
                         FindAxis(node.axis, form.shape.size()));
  for (size_t i = 1; i < inputs.size(); ++i) {
    Shape shape = inputs[i].shape;
    if (shape.size() == form.shape.size()) {
      // Arrays without elements may have any length.
      const int64_t length = std::exchange(shape[axis], inputs[0].shape[axis]);
      if (form.shape[axis] > INT64_MAX - length) {
        return absl::InvalidArgumentError(
            Cat("axis ", axis, " is too long (need at most ", INT64_MAX, ")"));
      }
      form.shape[axis] += length;
    }
    if (shape == inputs[0].shape) continue;
    return OtherShape(node, i, inputs[0].shape, inputs[i].shape);
  }
  return form;
}

StatusOr<ArrayForm> FindApplyForm(const Node& node,
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

StatusOr<std::vector<ArrayForm>> InputForms(const Node& node, FindForm find) {
  std::vector<ArrayForm> forms;
  for (const Transform& input : node.inputs) {
    BELAY_ASSIGN_OR_RETURN(forms.emplace_back(), ComputeForm(input, find));
  }
  return forms;
}

StatusOr<ArrayForm> FindNodeForm(const Node& node, FindForm find) {
  if (node.kind == Kind::kStored) return FindStoredForm(node, find);
  BELAY_ASSIGN_OR_RETURN(const std::vector<ArrayForm> inputs,
                         InputForms(node, find));
  if (node.kind == Kind::kStack) return FindStackForm(node, inputs);
  if (node.kind == Kind::kConcat) return FindConcatForm(node, inputs);
  if (node.kind == Kind::kApply) return FindApplyForm(node, inputs);
  BELAY_RETURN_IF_ERROR(CheckParts(node));
  ArrayForm form = inputs[0];
  if (node.kind == Kind::kSlice) {
    BELAY_ASSIGN_OR_RETURN(const Selection selection,
                           SelectSlice(node, form.shape));
    form.shape = selection.result_shape;
    return form;
  }
  if (node.kind == Kind::kTranspose) {
    BELAY_ASSIGN_OR_RETURN(const std::vector<size_t> axes,
                           PermuteAxes(node, form.shape.size()));
    for (size_t i = 0; i < axes.size(); ++i) {
      form.shape[i] = inputs[0].shape[axes[i]];
    }
    return form;
  }
  BELAY_ASSIGN_OR_RETURN(const AxisPart part, FindAxisPart(node, form.shape));
  form.shape[part.axis] = part.length;
  return form;
}

// --- Text ---

std::string NameFunction(const Node& node) {
  if (node.function == nullptr) return "null";
  return CatchExceptions([&] { return node.function->description(); })
      .value_or("?");
}

// Returns the name of a function and the text that follows its inputs.
std::pair<std::string, std::string> Describe(const Node& node) {
  switch (node.kind) {
    case Kind::kStack:
      return {"stack", Cat("; axis ", node.axis)};
    case Kind::kConcat:
      return {"concat", Cat("; axis ", node.axis)};
    case Kind::kSplit:
      return {"split", Cat("; axis ", node.axis, ", part ", node.first, " of ",
                           node.number)};
    case Kind::kNarrow:
      return {"narrow", Cat("; axis ", node.axis, ", ", node.number, " from ",
                            node.first)};
    case Kind::kTranspose:
      return {"transpose", node.axes.empty()
                               ? ""
                               : Cat("; ", absl::StrJoin(node.axes, ", "))};
    case Kind::kSlice:
      return {"slice", Cat("; [", IndexText(node.index), "]")};
    case Kind::kStored:
    case Kind::kApply:
      break;
  }
  return {NameFunction(node), ""};
}

void Collect(const Transform& transform, std::set<std::string>& keys) {
  if (transform.empty()) return;
  const Node& node = TransformNode::Of(transform);
  if (node.kind == Kind::kStored) keys.insert(node.key);
  for (const Transform& input : node.inputs) Collect(input, keys);
}

constexpr double kMaxPerByte = 1024, kAnyway = 64 << 20;

double CountBytes(const ArrayForm& form) {
  return static_cast<double>(NumElements(form.shape)) *
         static_cast<double>(DTypeSize(form.dtype));
}

}  // namespace

StatusOr<ArrayForm> ComputeForm(const Transform& transform, FindForm find) {
  if (transform.empty()) {
    return absl::InvalidArgumentError("an input is empty");
  }
  StatusOr<ArrayForm> form = FindNodeForm(TransformNode::Of(transform), find);
  if (form.ok()) {
    const Status sound = CheckedNumElements(form->shape).status();
    if (!sound.ok()) form = sound;
  }
  // Errors of an inner transform already name that transform.
  if (form.ok() || form.status().message().rfind("in ", 0) == 0) return form;
  return AddPrefix(form.status(), "in ", Shortened(transform.ToString()));
}

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
  std::vector<std::string> inputs;
  for (const Transform& input : node_->inputs) {
    inputs.push_back(input.ToString());
  }
  const auto [name, parameters] = Describe(*node_);
  return Cat(name, "(", absl::StrJoin(inputs, ", "), parameters, ")");
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

const std::string* FindStoredKey(const Transform& transform) {
  if (transform.empty()) return nullptr;
  const Node& node = TransformNode::Of(transform);
  return node.kind == Kind::kStored ? &node.key : nullptr;
}

// --- Memory ---

void MadeBytes::AddStored(const std::string& key, const ArrayForm& form) {
  if (keys_.insert(key).second) stored_ += CountBytes(form);
}

void MadeBytes::AddMade(const ArrayForm& form) { made_ += CountBytes(form); }

Status MadeBytes::Check(std::string_view who) const {
  const double most = kAnyway + kMaxPerByte * stored_;
  if (made_ <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat(
      "%s make too many bytes of those that are stored (need at most %.0f of "
      "%.0f, found %.0f)",
      AbslView(who), most, stored_, made_));
}

// --- Views ---

namespace {

using Visit = absl::FunctionRef<Status(const Transform& leaf, const View&)>;

// The system reads whole pages, so shorter gaps cost nothing.
constexpr int64_t kGapBytes = 4096;
// Up to this many parts are always read one by one.
constexpr int64_t kFewParts = 1024;
// Limits the parts of a view, because each takes memory in the plan.
constexpr int64_t kMaxViewParts = 65536;

// Returns the number of positions of a view along an axis of its array.
int64_t CountPositions(const View& view, const AxisView& axis) {
  return axis.along < 0 ? 1 : view.part.shape[static_cast<size_t>(axis.along)];
}

// Returns `count` positions of a view along an axis, from index `first`.
View Section(const View& view, size_t axis, int64_t first, int64_t count) {
  View section = view;
  AxisView& one = section.axes[axis];
  one.start += first * one.step;
  if (one.along < 0) return section;
  const auto along = static_cast<size_t>(one.along);
  section.part.offset[along] += first;
  section.part.shape[along] = count;
  return section;
}

class Descent {
 public:
  Descent(FindForm find, Visit visit) : find_(find), visit_(visit) {}

  Status Go(const Transform& transform, View view) {
    const Node& node = TransformNode::Of(transform);
    switch (node.kind) {
      case Kind::kStored:
      case Kind::kApply:
        return visit_(transform, view);
      case Kind::kStack:
        return GoStack(node, view);
      case Kind::kConcat:
        return GoConcat(node, view);
      case Kind::kSplit:
      case Kind::kNarrow:
        return GoPart(node, std::move(view));
      case Kind::kTranspose:
        return GoTranspose(node, view);
      case Kind::kSlice:
        return GoSlice(node, view);
    }
    return absl::InternalError("unknown kind of transform");
  }

 private:
  Status GoStack(const Node& node, const View& view) {
    BELAY_ASSIGN_OR_RETURN(const size_t axis,
                           FindAxis(node.axis, view.axes.size()));
    const int64_t count = CountPositions(view, view.axes[axis]);
    for (int64_t i = 0; i < count; ++i) {
      View one = Section(view, axis, i, 1);
      const auto input = static_cast<size_t>(one.axes[axis].start);
      one.axes.erase(one.axes.begin() + static_cast<std::ptrdiff_t>(axis));
      BELAY_RETURN_IF_ERROR(Go(node.inputs[input], std::move(one)));
    }
    return absl::OkStatus();
  }

  Status GoConcat(const Node& node, const View& view) {
    BELAY_ASSIGN_OR_RETURN(const size_t axis,
                           FindAxis(node.axis, view.axes.size()));
    BELAY_ASSIGN_OR_RETURN(const std::vector<ArrayForm> forms,
                           InputForms(node, find_));
    const AxisView& along = view.axes[axis];
    const int64_t count = CountPositions(view, along);
    int64_t begin = 0;
    for (size_t i = 0; i < forms.size(); ++i) {
      const int64_t end = begin + forms[i].shape[axis];
      // The number of positions before the first one in this input.
      const int64_t first = FirstNumber(count, [&](int64_t n) {
        const int64_t at = along.start + n * along.step;
        return along.step > 0 ? at < begin : at >= end;
      });
      const int64_t last = FirstNumber(count, [&](int64_t n) {
        const int64_t at = along.start + n * along.step;
        return along.step > 0 ? at < end : at >= begin;
      });
      if (first < last) {
        View one = Section(view, axis, first, last - first);
        one.axes[axis].start -= begin;
        BELAY_RETURN_IF_ERROR(Go(node.inputs[i], std::move(one)));
      }
      begin = end;
    }
    return absl::OkStatus();
  }

  // Returns the first of `count` numbers for which `is_smaller` is false.
  template <typename IsSmaller>
  static int64_t FirstNumber(int64_t count, IsSmaller is_smaller) {
    int64_t low = 0;
    while (count > 0) {
      const int64_t half = count / 2;
      if (is_smaller(low + half)) {
        low += half + 1;
        count -= half + 1;
      } else {
        count = half;
      }
    }
    return low;
  }

  Status GoPart(const Node& node, View view) {
    BELAY_ASSIGN_OR_RETURN(const ArrayForm form,
                           ComputeForm(node.inputs[0], find_));
    BELAY_ASSIGN_OR_RETURN(const AxisPart part, FindAxisPart(node, form.shape));
    view.axes[part.axis].start += part.offset;
    return Go(node.inputs[0], std::move(view));
  }

  Status GoTranspose(const Node& node, const View& view) {
    BELAY_ASSIGN_OR_RETURN(const std::vector<size_t> axes,
                           PermuteAxes(node, view.axes.size()));
    View inner = view;
    for (size_t i = 0; i < axes.size(); ++i) {
      inner.axes[axes[i]] = view.axes[i];
    }
    return Go(node.inputs[0], std::move(inner));
  }

  Status GoSlice(const Node& node, const View& view) {
    BELAY_ASSIGN_OR_RETURN(const ArrayForm form,
                           ComputeForm(node.inputs[0], find_));
    BELAY_ASSIGN_OR_RETURN(const Selection selection,
                           SelectSlice(node, form.shape));
    const std::vector<int> results = ResultAxes(node, selection);
    View inner{.part = view.part};
    for (size_t i = 0; i < selection.axes.size(); ++i) {
      const AxisRange& range = selection.axes[i];
      AxisView one{.start = range.start};
      if (results[i] >= 0) {
        const AxisView& outer = view.axes[static_cast<size_t>(results[i])];
        one = {.along = outer.along,
               .start = range.start + outer.start * range.step,
               .step = outer.step * range.step};
      }
      inner.axes.push_back(one);
    }
    return Go(node.inputs[0], std::move(inner));
  }

  // Returns, for each axis of the input, the axis of the result, or -1.
  static std::vector<int> ResultAxes(const Node& node,
                                     const Selection& selection) {
    std::vector<int> results(selection.axes.size(), -1);
    size_t input = 0;
    int result = 0;
    size_t num_taken = 0;  // by integers and slices
    for (const IndexItem& item : node.index) {
      num_taken += std::holds_alternative<int64_t>(item) ||
                           std::holds_alternative<belay::Slice>(item)
                       ? 1
                       : 0;
    }
    const size_t num_left = selection.axes.size() - num_taken;
    const auto keep = [&](size_t count) {
      for (size_t i = 0; i < count; ++i) results[input++] = result++;
    };
    bool has_ellipsis = false;
    for (const IndexItem& item : node.index) {
      if (std::holds_alternative<NewAxis>(item)) ++result;
      if (std::holds_alternative<int64_t>(item)) ++input;
      if (std::holds_alternative<belay::Slice>(item)) keep(1);
      if (std::holds_alternative<Ellipsis>(item)) {
        has_ellipsis = true;
        keep(num_left);
      }
    }
    if (!has_ellipsis) keep(num_left);
    return results;
  }

  FindForm find_;
  Visit visit_;
};

// Returns the smallest box of the array that contains all elements of the view.
Box CoveredBox(const View& view) {
  Box box;
  for (const AxisView& axis : view.axes) {
    const int64_t last =
        axis.start + (CountPositions(view, axis) - 1) * axis.step;
    const auto [low, high] = std::minmax(axis.start, last);
    box.offset.push_back(low);
    box.shape.push_back(high - low + 1);
  }
  return box;
}

// Calls `visit` for each leaf that has elements of `box`, with the view of
// these elements. A leaf is a stored array or the result of a program's
// function. Stops at the first error.
Status ForEachView(const Transform& transform, const Box& box, FindForm find,
                   Visit visit) {
  if (IsEmpty(box)) return absl::OkStatus();
  View view{.part = WholeBox(box.shape)};
  for (size_t i = 0; i < box.shape.size(); ++i) {
    view.axes.push_back({.along = static_cast<int>(i), .start = box.offset[i]});
  }
  return Descent(find, visit).Go(transform, std::move(view));
}

// Cuts a view of a stored array where this reduces reading: an axis with a step
// is cut into one part per position if there are few positions or the gaps
// between them are large.
std::vector<View> CutForReading(const View& view, const Shape& stored,
                                int64_t element_bytes) {
  std::vector<View> parts = {view};
  int64_t row_bytes = NumElements(stored) * element_bytes;
  for (size_t axis = 0; axis < stored.size(); ++axis) {
    row_bytes /= std::max<int64_t>(stored[axis], 1);
    const int64_t count = CountPositions(view, view.axes[axis]);
    const int64_t step = std::abs(view.axes[axis].step);
    if (count < 2 || step < 2) continue;
    const bool is_far = row_bytes >= (kGapBytes + step - 2) / (step - 1);
    const int64_t most = is_far ? kMaxViewParts : kFewParts;
    if (count > most / std::ssize(parts)) continue;
    std::vector<View> cut;
    for (const View& part : parts) {
      for (int64_t i = 0; i < count; ++i) {
        cut.push_back(Section(part, axis, i, 1));
      }
    }
    parts = std::move(cut);
  }
  return parts;
}

// --- Plan ---

int64_t FindPosition(const Shape& shape, const Shape& element) {
  int64_t position = 0;
  for (size_t i = 0; i < shape.size(); ++i) {
    position = position * shape[i] + element[i];
  }
  return position;
}

// Returns the address of the first element of a view in its target.
std::byte* FindPlace(const View& view, const TransformTarget& target) {
  Shape element = view.part.offset;
  for (size_t i = 0; i < element.size(); ++i) element[i] += target.offset[i];
  return target.data +
         FindPosition(target.shape, element) * DTypeSize(target.dtype);
}

// Returns true if the elements of a view have the same arrangement in the
// target as in the stored box that it covers.
bool LiesAsStored(const View& view, const TransformTarget& target) {
  int last = -1;
  for (const AxisView& axis : view.axes) {
    if (CountPositions(view, axis) == 1) continue;
    if (axis.step != 1 || axis.along <= last) return false;
    last = axis.along;
  }
  const Shape& part = view.part.shape;
  size_t axis = 0;
  while (axis < part.size() && part[axis] == 1) ++axis;
  for (++axis; axis < part.size(); ++axis) {
    if (part[axis] != target.shape[axis]) return false;
  }
  return true;
}

Status CheckDType(const Transform& leaf, DType found, DType need,
                  bool may_cast) {
  if (found == need || (may_cast && IsConvertible(found, need))) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrFormat("%s has another dtype (need %s, found %s)",
                      leaf.ToString(), DTypeName(need), DTypeName(found)));
}

StatusOr<Tensor> NewTensor(DType dtype, const Shape& shape) {
  const std::string what = absl::StrFormat(
      "%d elements of %s", NumElements(shape), DTypeName(dtype));
  return CatchBadAlloc(
      what, [&]() -> StatusOr<Tensor> { return Tensor(dtype, shape); });
}

void Copy(const TransformMove& move) {
  const View& view = move.view;
  const int64_t size = DTypeSize(move.target.dtype);
  const Shape dense = DenseStrides(move.covered.shape, size);
  Shape strides(view.part.shape.size(), 0);
  const std::byte* source = move.elements.data();
  for (size_t i = 0; i < view.axes.size(); ++i) {
    const AxisView& axis = view.axes[i];
    source += (axis.start - move.covered.offset[i]) * dense[i];
    if (axis.along < 0) continue;
    strides[static_cast<size_t>(axis.along)] = axis.step * dense[i];
  }
  StridedCopy(
      view.part.shape, size, {source, strides},
      {FindPlace(view, move.target), DenseStrides(move.target.shape, size)});
}

class Planner {
 public:
  Planner(FindForm find, std::vector<TransformRead>& reads)
      : find_(find), reads_(reads) {}

  Status Plan(const Transform& transform, const Box& box,
              const TransformTarget& target, bool may_cast,
              std::vector<TransformMove>& moves) {
    return ForEachView(
        transform, box, find_,
        [&](const Transform& leaf, const View& view) -> Status {
          BELAY_ASSIGN_OR_RETURN(const ArrayForm form,
                                 ComputeForm(leaf, find_));
          BELAY_RETURN_IF_ERROR(
              CheckDType(leaf, form.dtype, target.dtype, may_cast));
          if (TransformNode::Of(leaf).kind == TransformNode::Kind::kApply) {
            return PlanApply(TransformNode::Of(leaf), form, view, target,
                             moves);
          }
          return PlanStored(TransformNode::Of(leaf).key, form, view, target,
                            moves);
        });
  }

 private:
  Status PlanStored(const std::string& key, const ArrayForm& form,
                    const View& view, const TransformTarget& target,
                    std::vector<TransformMove>& moves) {
    const auto read = [&](const Box& box, std::byte* data) {
      reads_.push_back({.key = key,
                        .stored = form,
                        .box = box,
                        .dtype = target.dtype,
                        .data = data});
    };
    if (LiesAsStored(view, target)) {
      read(CoveredBox(view), FindPlace(view, target));
      return absl::OkStatus();
    }
    for (View& part : CutForReading(view, form.shape, DTypeSize(form.dtype))) {
      TransformMove move{.target = target, .covered = CoveredBox(part)};
      move.view = std::move(part);
      BELAY_ASSIGN_OR_RETURN(move.elements,
                             NewTensor(target.dtype, move.covered.shape));
      read(move.covered, move.elements.data());
      moves.push_back(std::move(move));
    }
    return absl::OkStatus();
  }

  Status PlanApply(const TransformNode& node, const ArrayForm& form,
                   const View& view, const TransformTarget& target,
                   std::vector<TransformMove>& moves) {
    TransformMove move{
        .target = target, .view = view, .covered = CoveredBox(view)};
    BELAY_ASSIGN_OR_RETURN(const std::vector<ArrayForm> forms,
                           InputForms(node, find_));
    auto computed = std::make_unique<TransformInput>();
    computed->function = node.function;
    computed->dtype = form.dtype;
    BELAY_ASSIGN_OR_RETURN(computed->boxes, CatchExceptions([&] {
                             return node.function->Needs(forms, move.covered);
                           }));
    if (computed->boxes.size() != forms.size()) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "%s: Needs returns no box for each input (need %d, found %d)",
          Transform::Apply(node.function, node.inputs).ToString(), forms.size(),
          computed->boxes.size()));
    }
    for (size_t i = 0; i < forms.size(); ++i) {
      const Box& box = computed->boxes[i];
      BELAY_RETURN_IF_ERROR(AddPrefix(CheckBox(box, forms[i].shape),
                                      "a box of ", node.inputs[i].ToString()));
      BELAY_ASSIGN_OR_RETURN(Tensor input,
                             NewTensor(forms[i].dtype, box.shape));
      const TransformTarget into{.data = input.data(),
                                 .dtype = forms[i].dtype,
                                 .shape = box.shape,
                                 .offset = Shape(box.shape.size(), 0)};
      computed->inputs.push_back(std::move(input));
      BELAY_RETURN_IF_ERROR(
          Plan(node.inputs[i], box, into, /*may_cast=*/false, computed->moves));
    }
    move.computed = std::move(computed);
    moves.push_back(std::move(move));
    return absl::OkStatus();
  }

  FindForm find_;
  std::vector<TransformRead>& reads_;
};

// Computes a box of a function's result, as elements of `dtype`.
StatusOr<Tensor> Compute(TransformInput& input, const Box& box, DType dtype,
                         std::vector<ComputedLosses>& losses) {
  BELAY_RETURN_IF_ERROR(FinishTransform(std::move(input.moves), losses));
  BELAY_ASSIGN_OR_RETURN(Tensor result, NewTensor(input.dtype, box.shape));
  BELAY_RETURN_IF_ERROR(CatchExceptions([&]() -> Status {
    return input.function->Compute(input.inputs, input.boxes, box, result);
  }));
  if (result.dtype() != input.dtype || result.shape() != box.shape) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "Compute has changed the form of the result (need %s %s, found %s %s)",
        DTypeName(input.dtype), ShapeText(box.shape), DTypeName(result.dtype()),
        ShapeText(result.shape())));
  }
  if (input.dtype == dtype) return result;
  BELAY_ASSIGN_OR_RETURN(Tensor converted, NewTensor(dtype, box.shape));
  losses.push_back({.from = input.dtype, .to = dtype});
  ConvertElements(input.dtype, result.data(), dtype, converted.data(),
                  result.num_elements(), &losses.back().losses);
  return converted;
}

}  // namespace

Status PlanTransform(const Transform& transform, const Box& box,
                     const TransformTarget& target, bool may_cast,
                     FindForm find, std::vector<TransformMove>& moves,
                     std::vector<TransformRead>& reads) {
  return Planner(find, reads).Plan(transform, box, target, may_cast, moves);
}

Status FinishTransform(std::vector<TransformMove> moves,
                       std::vector<ComputedLosses>& losses) {
  for (TransformMove& move : moves) {
    if (move.computed != nullptr) {
      BELAY_ASSIGN_OR_RETURN(
          move.elements,
          Compute(*move.computed, move.covered, move.target.dtype, losses));
    }
    Copy(move);
    move = {};
  }
  return absl::OkStatus();
}

}  // namespace belay
