#include "state/transform_plan.h"

#include <algorithm>
#include <cstdlib>
#include <utility>
#include <variant>

#include "absl/strings/str_format.h"
#include "core/catch_exceptions.h"
#include "core/element_conversion.h"
#include "core/selection.h"
#include "core/status_macros.h"
#include "core/strided_copy.h"
#include "core/text.h"
#include "state/transform.h"

namespace belay {
namespace {

constexpr double kMostPerByte = 1024, kAnyway = 64 << 20;

double BytesOf(const ArrayForm& form) {
  return static_cast<double>(NumElements(form.shape)) *
         static_cast<double>(DTypeSize(form.dtype));
}

}  // namespace

void MadeBytes::AddStored(const std::string& key, const ArrayForm& form) {
  if (keys_.insert(key).second) stored_ += BytesOf(form);
}

void MadeBytes::AddMade(const ArrayForm& form) { made_ += BytesOf(form); }

Status MadeBytes::Check(std::string_view who) const {
  const double most = kAnyway + kMostPerByte * stored_;
  if (made_ <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat(
      "%s make too many bytes of those that are stored (need at most %.0f of "
      "%.0f, found %.0f)",
      AbslView(who), most, stored_, made_));
}

// --- Transform plan ---

namespace {

using Node = TransformNode;
using Kind = Node::Kind;
using Visit = absl::FunctionRef<Status(const Transform& leaf, const View&)>;

// A system reads whole pages: what is shorter costs nothing to read along.
constexpr int64_t kGapBytes = 4096;
// Of a few parts each is read alone in any case.
constexpr int64_t kFewParts = 1024;
// Each part takes its place in a plan.
constexpr int64_t kMostViewParts = 65536;

// Of a view the `count` positions along an axis from number `first` on.
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
                           AxisOf(node.axis, view.axes.size()));
    const int64_t count = CountOf(view, view.axes[axis]);
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
                           AxisOf(node.axis, view.axes.size()));
    BELAY_ASSIGN_OR_RETURN(const std::vector<ArrayForm> forms,
                           InputForms(node, find_));
    const AxisView& along = view.axes[axis];
    const int64_t count = CountOf(view, along);
    int64_t begin = 0;
    for (size_t i = 0; i < forms.size(); ++i) {
      const int64_t end = begin + forms[i].shape[axis];
      // Positions are visited in their order, upwards or downwards.
      const auto is_before = [&](int64_t n) {
        const int64_t at = along.start + n * along.step;
        return along.step > 0 ? at < begin : at >= end;
      };
      const auto is_behind = [&](int64_t n) {
        const int64_t at = along.start + n * along.step;
        return along.step > 0 ? at >= end : at < begin;
      };
      const int64_t first = FirstNumber(count, is_before);
      const int64_t last =
          FirstNumber(count, [&](int64_t n) { return !is_behind(n); });
      if (first < last) {
        View one = Section(view, axis, first, last - first);
        one.axes[axis].start -= begin;
        BELAY_RETURN_IF_ERROR(Go(node.inputs[i], std::move(one)));
      }
      begin = end;
    }
    return absl::OkStatus();
  }

  // The first of `count` numbers for which `is_smaller` no longer holds.
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
    BELAY_ASSIGN_OR_RETURN(const ArrayForm form, FormOf(node.inputs[0], find_));
    BELAY_ASSIGN_OR_RETURN(const AxisPart part, PartOf(node, form.shape));
    view.axes[part.axis].start += part.offset;
    return Go(node.inputs[0], std::move(view));
  }

  Status GoTranspose(const Node& node, const View& view) {
    BELAY_ASSIGN_OR_RETURN(const std::vector<size_t> axes,
                           AxesOf(node, view.axes.size()));
    View inner = view;
    for (size_t i = 0; i < axes.size(); ++i) {
      inner.axes[axes[i]] = view.axes[i];
    }
    return Go(node.inputs[0], std::move(inner));
  }

  Status GoSlice(const Node& node, const View& view) {
    BELAY_ASSIGN_OR_RETURN(const ArrayForm form, FormOf(node.inputs[0], find_));
    BELAY_ASSIGN_OR_RETURN(const Selection selection,
                           SelectionOf(node, form.shape));
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

  // For each axis of the input, that of the result, or -1.
  static std::vector<int> ResultAxes(const Node& node,
                                     const Selection& selection) {
    std::vector<int> results(selection.axes.size(), -1);
    size_t input = 0;
    int result = 0;
    size_t num_taken = 0;  // by the items themselves
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

}  // namespace

int64_t CountOf(const View& view, const AxisView& axis) {
  return axis.along < 0 ? 1 : view.part.shape[static_cast<size_t>(axis.along)];
}

Box CoveredBox(const View& view) {
  Box box;
  for (const AxisView& axis : view.axes) {
    const int64_t last = axis.start + (CountOf(view, axis) - 1) * axis.step;
    const auto [low, high] = std::minmax(axis.start, last);
    box.offset.push_back(low);
    box.shape.push_back(high - low + 1);
  }
  return box;
}

Status ForEachView(const Transform& transform, const Box& box, FindForm find,
                   Visit visit) {
  if (IsEmpty(box)) return absl::OkStatus();
  View view{.part = WholeBox(box.shape)};
  for (size_t i = 0; i < box.shape.size(); ++i) {
    view.axes.push_back({.along = static_cast<int>(i), .start = box.offset[i]});
  }
  return Descent(find, visit).Go(transform, std::move(view));
}

std::vector<View> CutForReading(const View& view, const Shape& stored,
                                int64_t element_bytes) {
  std::vector<View> parts = {view};
  int64_t row_bytes = NumElements(stored) * element_bytes;
  for (size_t axis = 0; axis < stored.size(); ++axis) {
    row_bytes /= std::max<int64_t>(stored[axis], 1);
    const int64_t count = CountOf(view, view.axes[axis]);
    const int64_t step = std::abs(view.axes[axis].step);
    if (count < 2 || step < 2) continue;
    const bool is_far = row_bytes >= (kGapBytes + step - 2) / (step - 1);
    const int64_t most = is_far ? kMostViewParts : kFewParts;
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

namespace {

// The number of an element of a dense array.
int64_t PositionOf(const Shape& shape, const Shape& element) {
  int64_t position = 0;
  for (size_t i = 0; i < shape.size(); ++i) {
    position = position * shape[i] + element[i];
  }
  return position;
}

// The place of the first element of a view in its target.
std::byte* PlaceOf(const View& view, const TransformTarget& target) {
  Shape element = view.part.offset;
  for (size_t i = 0; i < element.size(); ++i) element[i] += target.offset[i];
  return target.data +
         PositionOf(target.shape, element) * DTypeSize(target.dtype);
}

// Whether the elements of a view lie in its target as in the box of the array
// that it covers.
bool LiesAsStored(const View& view, const TransformTarget& target) {
  int last = -1;
  for (const AxisView& axis : view.axes) {
    if (CountOf(view, axis) == 1) continue;
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

// Copies the elements of a move to their place.
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
      {PlaceOf(view, move.target), DenseStrides(move.target.shape, size)});
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
          BELAY_ASSIGN_OR_RETURN(const ArrayForm form, FormOf(leaf, find_));
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
    if (LiesAsStored(view, target)) {
      reads_.push_back({.key = key,
                        .stored = form,
                        .box = CoveredBox(view),
                        .dtype = target.dtype,
                        .data = PlaceOf(view, target)});
      return absl::OkStatus();
    }
    for (View& part : CutForReading(view, form.shape, DTypeSize(form.dtype))) {
      TransformMove move{.target = target, .covered = CoveredBox(part)};
      move.view = std::move(part);
      BELAY_ASSIGN_OR_RETURN(move.elements,
                             NewTensor(target.dtype, move.covered.shape));
      reads_.push_back({.key = key,
                        .stored = form,
                        .box = move.covered,
                        .dtype = target.dtype,
                        .data = move.elements.data()});
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
      if (const Status status = CheckBox(box, forms[i].shape); !status.ok()) {
        return Status(status.code(), Cat("a box of ", node.inputs[i].ToString(),
                                         ": ", std::string(status.message())));
      }
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

// The elements of a box of a function's result, as elements of `dtype`.
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
