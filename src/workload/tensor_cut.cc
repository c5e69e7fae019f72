#include "workload/tensor_cut.h"

#include <algorithm>
#include <utility>

namespace belay {
namespace {

// The part of [0, units) that has the number `index` of `parts`.
std::pair<int64_t, int64_t> EvenPart(int64_t units, int64_t parts,
                                     int64_t index) {
  return {units * index / parts, units * (index + 1) / parts};
}

// Into how many parts TP cuts a tensor.
int64_t TensorParts(const TensorSpec& tensor, const Parallelism& parallelism) {
  if (tensor.tp_axis < 0) return 1;
  return tensor.tp_max == 0 ? parallelism.tp
                            : std::min(parallelism.tp, tensor.tp_max);
}

// Cuts an axis of `box` to [begin, end) of its length.
Box Cut(Box box, int64_t axis, int64_t begin, int64_t end) {
  box.offset[axis] += begin;
  box.shape[axis] = end - begin;
  return box;
}

std::vector<Box> CutByTp(const TensorSpec& tensor, const Box& box,
                         const Parallelism& parallelism,
                         const RankPlace& place) {
  const int64_t parts = TensorParts(tensor, parallelism);
  if (parts == 1) return {box};
  const int64_t index = place.tp / TensorCopies(tensor, parallelism);
  std::vector<int64_t> segments = tensor.tp_segments;
  if (segments.empty()) segments = {box.shape[tensor.tp_axis]};
  std::vector<Box> boxes;
  int64_t start = 0;
  for (int64_t segment : segments) {
    const auto [begin, end] = EvenPart(segment / tensor.tp_unit, parts, index);
    boxes.push_back(Cut(box, tensor.tp_axis, start + begin * tensor.tp_unit,
                        start + end * tensor.tp_unit));
    start += segment;
  }
  return boxes;
}

// Cuts boxes that are stacked along tp_axis.
std::vector<Box> CutByFsdp(const TensorSpec& tensor,
                           const std::vector<Box>& boxes, int64_t parts,
                           int64_t index) {
  const int32_t axis = tensor.fsdp_axis;
  const bool is_stacked = axis == tensor.tp_axis;
  int64_t length = 0;
  for (const Box& box : boxes) {
    length = is_stacked ? length + box.shape[axis] : box.shape[axis];
  }
  const int64_t part = (length + parts - 1) / parts;
  const int64_t first = index * part, last = first + part;
  std::vector<Box> result;
  int64_t start = 0;
  for (const Box& box : boxes) {
    const int64_t begin = std::max<int64_t>(0, first - start);
    const int64_t end = std::min(box.shape[axis], last - start);
    if (begin < end) result.push_back(Cut(box, axis, begin, end));
    if (is_stacked) start += box.shape[axis];
  }
  return result;
}

}  // namespace

bool IsOfExperts(const TensorSpec& tensor) {
  return tensor.ep_axis >= 0 || tensor.expert >= 0;
}

int64_t StageOfTensor(const ModelSpec& model, const TensorSpec& tensor,
                      const Parallelism& parallelism) {
  switch (tensor.stage) {
    case StageOf::kFirst:
      return 0;
    case StageOf::kLast:
      return parallelism.pp - 1;
    case StageOf::kLayer:
      break;
  }
  return tensor.layer * parallelism.pp / model.num_layers;
}

bool IsHeld(const ModelSpec& model, const TensorSpec& tensor,
            const Parallelism& parallelism, const RankPlace& place) {
  if (StageOfTensor(model, tensor, parallelism) != place.pp) return false;
  return tensor.expert < 0 ||
         tensor.expert * parallelism.ep / model.num_experts ==
             place.ep(parallelism);
}

std::vector<Box> BoxesOfTensor(const TensorSpec& tensor,
                               const Parallelism& parallelism,
                               const RankPlace& place) {
  Box box = WholeBox(tensor.shape);
  if (tensor.ep_axis >= 0) {
    const auto [begin, end] = EvenPart(box.shape[tensor.ep_axis],
                                       parallelism.ep, place.ep(parallelism));
    box = Cut(std::move(box), tensor.ep_axis, begin, end);
  }
  std::vector<Box> boxes = CutByTp(tensor, box, parallelism, place);
  if (tensor.fsdp_axis >= 0 && parallelism.fsdp > 1) {
    boxes = CutByFsdp(tensor, boxes, parallelism.fsdp, place.fsdp);
  }
  std::erase_if(boxes, IsEmpty);
  return boxes;
}

int64_t TensorCopies(const TensorSpec& tensor, const Parallelism& parallelism) {
  return parallelism.tp / TensorParts(tensor, parallelism);
}

DataPart DataPartOf(bool of_experts, const Parallelism& parallelism,
                    const RankPlace& place) {
  if (!of_experts) return {parallelism.dp, place.dp};
  return {parallelism.dp / parallelism.ep, place.dp / parallelism.ep};
}

}  // namespace belay
