// How the parts of a transform are read, and how many bytes it makes.

#ifndef BELAY_STATE_TRANSFORM_PLAN_H_
#define BELAY_STATE_TRANSFORM_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "belay/arrays/box.h"
#include "belay/arrays/dtype.h"
#include "belay/arrays/tensor.h"
#include "belay/status.h"
#include "belay/values/transform.h"
#include "core/element_conversion.h"
#include "state/transform.h"

namespace belay {

// How many bytes transforms make of those that are stored.

// For arrays that get memory by what a checkpoint says: a few transforms may
// name one array again and again.
class MadeBytes {
 public:
  // What is stored counts once, whoever names it.
  void AddStored(const std::string& key, const ArrayForm& form);
  void AddMade(const ArrayForm& form);

  // Errors: InvalidArgument - more than 64 MiB are made, and more than 1024
  //   bytes of each byte that is stored. `who` makes them.
  Status Check(std::string_view who) const;

 private:
  std::set<std::string> keys_;
  double stored_ = 0;
  double made_ = 0;
};

// Which elements of which arrays a box of a transform consists of.
//
// In:  a transform, and a box of its result. Out: views: each says where the
//      elements of a part of the box lie in one leaf, a stored array or the
//      result of a program's function, axis by axis. No I/O.

// Where the elements of a part lie along one axis of an array: at start, start
// + step, ... as the index along axis `along` of the part grows; -1: at start.
struct AxisView {
  int along = -1;
  int64_t start = 0;
  int64_t step = 1;

  friend bool operator==(const AxisView&, const AxisView&) = default;
};

// A part of the box. `part` counts from the box's first element.
struct View {
  Box part;
  std::vector<AxisView> axes;  // of the array

  friend bool operator==(const View&, const View&) = default;
};

// The positions that a view has along an axis of its array.
int64_t CountOf(const View& view, const AxisView& axis);

// The smallest box of the array that has all elements of the view.
Box CoveredBox(const View& view);

// Calls `visit` for each leaf that has elements of `box`, and ends with the
// first error. The box lies in the result, whose form is known.
Status ForEachView(
    const Transform& transform, const Box& box, FindForm find,
    absl::FunctionRef<Status(const Transform& leaf, const View&)> visit);

// Cuts a view of a stored array with elements of so many bytes where that
// spares reading: along axes with a step, into one part for each position, if
// there are few or much lies between them.
std::vector<View> CutForReading(const View& view, const Shape& stored,
                                int64_t element_bytes);

// How a box of a transform comes into memory. Pure but for copying.
//
// In:  a transform, a box of its result, and memory for it. Out: boxes of
// stored
//      arrays to read, and what is done when they are there. What lies in the
//      memory as it lies in a stored array is read into its place.

// A box of a stored array that is read, as elements of `dtype`, to `data`.
struct TransformRead {
  std::string key;
  ArrayForm stored;
  Box box;
  DType dtype = DType::kU8;
  std::byte* data = nullptr;
};

// Dense memory, and where in it the first element of a box goes.
struct TransformTarget {
  std::byte* data = nullptr;
  DType dtype = DType::kU8;
  Shape shape;
  Shape offset;
};

struct TransformInput;

// What is copied to its place when all is read.
struct TransformMove {
  TransformTarget target;
  View view;
  Box covered;  // by `elements`
  Tensor elements;
  // What computes the elements, if they are not read.
  std::unique_ptr<TransformInput> computed;
};

// A box of the result of a program's function, and what it is computed from.
struct TransformInput {
  std::shared_ptr<const TransformFunction> function;
  DType dtype = DType::kU8;  // of the result
  std::vector<Box> boxes;    // by input
  std::vector<Tensor> inputs;
  std::vector<TransformMove> moves;  // into them
};

// Plans `box` of the result into a target, and adds what is read to `reads`.
// `may_cast`: elements may have another dtype than the target.
// Errors: those of FormOf; FailedPrecondition - an array has another dtype;
//   what Needs returns or throws; InvalidArgument - it returns no boxes of the
//   inputs; ResourceExhausted - no memory.
Status PlanTransform(const Transform& transform, const Box& box,
                     const TransformTarget& target, bool may_cast,
                     FindForm find, std::vector<TransformMove>& moves,
                     std::vector<TransformRead>& reads);

// What converting the results of one function to another dtype lost.
struct ComputedLosses {
  DType from = DType::kU8;
  DType to = DType::kU8;
  ConversionLosses losses;
};

// Copies and computes what was read, and gives the memory back. Adds to
// `losses` what conversions of computed elements have done.
// Errors: what Compute returns or throws; ResourceExhausted - no memory.
Status FinishTransform(std::vector<TransformMove> moves,
                       std::vector<ComputedLosses>& losses);

}  // namespace belay

#endif  // BELAY_STATE_TRANSFORM_PLAN_H_
