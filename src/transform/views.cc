#include "transform/views.h"

#include <algorithm>
#include <cstdlib>
#include <utility>
#include <variant>

#include "base/status_macros.h"
#include "transform/axes.h"
#include "transform/node.h"

namespace belay {
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

}  // namespace belay
