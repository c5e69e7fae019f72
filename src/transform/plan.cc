#include "transform/plan.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "base/catch_bad_alloc.h"
#include "base/catch_exceptions.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "bytes/element_conversion.h"
#include "geometry/strided_copy.h"
#include "tensor/strided_copy.h"
#include "transform/node.h"

namespace belay {
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
