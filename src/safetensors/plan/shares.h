// Who carries which part of the tensors, so that all ranks carry about the same
// number of bytes.
//
// In:  the tensors as they lie end to end, and a number of ranks.
// Out: for each rank ranges of elements, which go on where those of the rank
//      before end; ranges as boxes.
// Pure.

#ifndef BELAY_SAFETENSORS_PLAN_SHARES_H_
#define BELAY_SAFETENSORS_PLAN_SHARES_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "belay/arrays/box.h"
#include "safetensors/plan/header.h"

namespace belay::safetensors {

// The elements [begin, end) of a tensor, counted row-major.
struct TensorRange {
  int64_t tensor = 0;
  int64_t begin = 0;
  int64_t end = 0;

  friend bool operator==(const TensorRange&, const TensorRange&) = default;
};

// A tensor is cut only between blocks of so many elements: the largest number
// of whole rows along its outermost axes that is no more than 1 MiB; one
// element, if a row of the last axis is more.
int64_t UnitElements(const FileTensor& tensor);

// Cuts the tensors into `num_ranks` shares, which differ by the size of one
// unit. A tensor without elements is in the first share.
std::vector<std::vector<TensorRange>> EvenShares(
    const std::vector<FileTensor>& tensors, int num_ranks);

// Calls `visit` for boxes that make up the elements [begin, end) of an array
// of that shape, in row-major order; each is contiguous in the array. At most
// 2 * ndim - 1 of them. An empty range gives nothing.
void ForEachBoxOfRange(const Shape& shape, int64_t begin, int64_t end,
                       absl::FunctionRef<void(const Box&)> visit);

}  // namespace belay::safetensors

#endif  // BELAY_SAFETENSORS_PLAN_SHARES_H_
