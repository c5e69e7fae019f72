#include "workload/rank_state.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_format.h"
#include "belay/arrays/flat_buffer.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "workload/parallelism.h"

namespace belay {
namespace {

// Returns part number `index` of `parts` parts of [0, units).
std::pair<int64_t, int64_t> EvenPart(int64_t units, int64_t parts,
                                     int64_t index) {
  return {units * index / parts, units * (index + 1) / parts};
}

// Returns the number of parts into which TP splits a tensor.
int64_t TensorParts(const TensorSpec& tensor, const Parallelism& parallelism) {
  if (tensor.tp_axis < 0) return 1;
  return tensor.tp_max == 0 ? parallelism.tp
                            : std::min(parallelism.tp, tensor.tp_max);
}

// Restricts an axis of `box` to [begin, end) of its length.
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

// Splits boxes that are stacked along tp_axis.
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

// --- Rank state ---

namespace {

// Returns the model with vocabularies padded to a multiple of `multiple`.
ModelSpec Padded(ModelSpec model, int64_t multiple) {
  if (multiple <= 1) return model;
  for (TensorSpec& tensor : model.tensors) {
    if (!tensor.is_vocabulary || tensor.tp_axis < 0) continue;
    int64_t& words = tensor.shape[tensor.tp_axis];
    words = (words + multiple - 1) / multiple * multiple;
  }
  return model;
}

// A kind of value that is stored for a tensor.
struct Kept {
  const char* prefix;
  std::optional<DType> dtype;  // unset: that of the tensor
};
constexpr Kept kMaster = {"optimizer/master/", DType::kF32};
constexpr Kept kMoments[] = {{"optimizer/exp_avg/", DType::kF32},
                             {"optimizer/exp_avg_sq/", DType::kF32}};

// The optimizer values of one TP, PP and EP rank, concatenated; those of
// experts are in a separate buffer. All are f32, so the layout is the same for
// each kind of value.
struct Buffer {
  std::vector<FlatPiece> pieces;
  std::vector<const TensorSpec*> tensors;                // of each piece
  absl::flat_hash_map<const TensorSpec*, size_t> first;  // piece of a tensor
  int64_t elements = 0;
};

class StateMaker {
 public:
  StateMaker(const ModelSpec& model, const Parallelism& parallelism,
             const StateOptions& options)
      : model_(Padded(model, options.pad_vocabulary * parallelism.tp)),
        parallelism_(parallelism),
        options_(options) {
    for (const TensorSpec& tensor : model_.tensors) {
      names_.emplace(tensor.name, &tensor);
    }
  }

  RankShards Make(int64_t rank) {
    place_ = PlaceOf(parallelism_, rank);
    RankShards state{.node =
                         static_cast<int32_t>(rank / options_.ranks_per_node)};
    for (const TensorSpec& tensor : model_.tensors) {
      AddTensor(tensor, {"model/", std::nullopt}, state);
    }
    if (!options_.adamw) return state;
    AddKept(kMaster, state);
    for (const Kept& kept : kMoments) AddKept(kept, state);
    state.shards.push_back(
        {.key = "optimizer/step", .dtype = DType::kI64, .replica = rank});
    return state;
  }

 private:
  // The tensor under whose name another one is stored.
  const TensorSpec& Stored(const TensorSpec& tensor) const {
    return tensor.tied_to.empty() ? tensor : *names_.at(tensor.tied_to);
  }

  // True if the ranks at this place hold the tensor separately. A tensor that
  // is tied to a tensor of the same stage is that tensor.
  bool HasOwn(const TensorSpec& tensor, const RankPlace& place) const {
    if (!IsHeld(model_, tensor, parallelism_, place)) return false;
    return tensor.tied_to.empty() ||
           StageOfTensor(model_, Stored(tensor), parallelism_) != place.pp;
  }

  static bool HasKept(const TensorSpec& tensor, const Kept& kept) {
    if (!kept.dtype) return true;
    return tensor.has_optimizer &&
           (kept.prefix != kMaster.prefix || tensor.dtype != DType::kF32);
  }

  // Numbers the copies that different stages and TP ranks hold, from 0.
  int64_t CopyOf(const TensorSpec& tensor, const RankPlace& place) const {
    const int64_t copies = TensorCopies(tensor, parallelism_);
    return (tensor.tied_to.empty() ? 0 : copies) + place.tp % copies;
  }

  // Numbers all copies.
  int64_t ReplicaOf(const TensorSpec& tensor) const {
    const DataPart data = DataPartOf(IsOfExperts(tensor), parallelism_, place_);
    int64_t replica = CopyOf(tensor, place_) * data.parts + data.index;
    if (tensor.fsdp_axis < 0) {
      replica = replica * parallelism_.fsdp + place_.fsdp;
    }
    return replica;
  }

  void AddTensor(const TensorSpec& tensor, const Kept& kept,
                 RankShards& state) const {
    if (!HasOwn(tensor, place_) || !HasKept(tensor, kept)) return;
    const TensorSpec& stored = Stored(tensor);
    for (Box& box : BoxesOfTensor(tensor, parallelism_, place_)) {
      state.shards.push_back({.key = kept.prefix + stored.name,
                              .dtype = kept.dtype.value_or(stored.dtype),
                              .global_shape = stored.shape,
                              .box = std::move(box),
                              .replica = ReplicaOf(tensor)});
    }
  }

  void AddKept(const Kept& kept, RankShards& state) {
    if (parallelism_.zero) {
      for (const bool of_experts : {false, true}) {
        AddRange(kept, of_experts, state);
      }
      return;
    }
    for (const TensorSpec& tensor : model_.tensors) {
      AddTensor(tensor, kept, state);
    }
  }

  // Returns the buffer of the ranks with these TP, PP and EP coordinates.
  const Buffer& BufferOf(const RankPlace& place, bool of_experts) {
    Buffer& buffer =
        buffers_[{place.pp, place.ep(parallelism_), place.tp, of_experts}];
    if (!buffer.pieces.empty()) return buffer;
    for (const TensorSpec& tensor : model_.tensors) {
      if (IsOfExperts(tensor) != of_experts || !tensor.has_optimizer ||
          !HasOwn(tensor, place)) {
        continue;
      }
      const TensorSpec& stored = Stored(tensor);
      // Copies are found by the tensor that they are copies of.
      buffer.first.try_emplace(&stored, buffer.pieces.size());
      for (Box& box : BoxesOfTensor(tensor, parallelism_, place)) {
        const int64_t elements = NumElements(box.shape);
        buffer.pieces.push_back({.key = stored.name,
                                 .global_shape = stored.shape,
                                 .box = std::move(box),
                                 .begin = buffer.elements,
                                 .replica = CopyOf(tensor, place)});
        buffer.tensors.push_back(&stored);
        buffer.elements += elements;
      }
    }
    return buffer;
  }

  // Returns the range of a buffer that this rank holds.
  std::pair<int64_t, int64_t> FindNumberRange(const Buffer& buffer,
                                              bool of_experts) const {
    const DataPart data = DataPartOf(of_experts, parallelism_, place_);
    const int64_t part = (buffer.elements + data.parts - 1) / data.parts;
    const int64_t begin = std::min(data.index * part, buffer.elements);
    return {begin, std::min(begin + part, buffer.elements)};
  }

  // Returns the elements of a piece that are in this rank's range, relative to
  // the piece.
  std::pair<int64_t, int64_t> PartOf(const Buffer& buffer, size_t piece,
                                     bool of_experts) const {
    const auto [begin, end] = FindNumberRange(buffer, of_experts);
    const FlatPiece& flat = buffer.pieces[piece];
    const int64_t elements = NumElements(flat.box->shape);
    return {std::clamp<int64_t>(begin - *flat.begin, 0, elements),
            std::clamp<int64_t>(end - *flat.begin, 0, elements)};
  }

  // True if the first holder of a tensor splits it at the same positions as
  // this rank.
  bool IsCutAlike(const Buffer& buffer, size_t piece, bool of_experts) {
    const TensorSpec& tensor = *buffer.tensors[piece];
    RankPlace first = place_;
    first.pp = StageOfTensor(model_, tensor, parallelism_);
    first.tp -= first.tp % TensorCopies(tensor, parallelism_);
    const Buffer& other = BufferOf(first, of_experts);
    const size_t same = piece - buffer.first.at(&tensor);
    return PartOf(buffer, piece, of_experts) ==
           PartOf(other, other.first.at(&tensor) + same, of_experts);
  }

  void AddRange(const Kept& kept, bool of_experts, RankShards& state) {
    const Buffer& buffer = BufferOf(place_, of_experts);
    const auto [begin, end] = FindNumberRange(buffer, of_experts);
    // The pieces are valid and in order.
    StatusOr<std::vector<FlatBox>> boxes =
        BoxesOfFlatRange(buffer.pieces, begin, end);
    for (FlatBox& flat : *boxes) {
      const TensorSpec& tensor = *buffer.tensors[flat.piece];
      const FlatPiece& piece = buffer.pieces[flat.piece];
      if (!HasKept(tensor, kept)) continue;
      if (piece.replica > 0 && !options_.all_copies &&
          !IsCutAlike(buffer, flat.piece, of_experts)) {
        continue;
      }
      state.shards.push_back({.key = kept.prefix + piece.key,
                              .dtype = *kept.dtype,
                              .global_shape = piece.global_shape,
                              .box = std::move(flat.box),
                              .replica = piece.replica});
    }
  }

  const ModelSpec model_;
  const Parallelism parallelism_;
  const StateOptions options_;
  absl::flat_hash_map<std::string, const TensorSpec*> names_;
  RankPlace place_;
  // By PP, EP and TP coordinate, and true for buffers of experts. References
  // stay valid.
  std::map<std::tuple<int64_t, int64_t, int64_t, bool>, Buffer> buffers_;
};

}  // namespace

StatusOr<std::vector<RankShards>> RankStates(const ModelSpec& model,
                                             const Parallelism& parallelism,
                                             const StateOptions& options) {
  BELAY_RETURN_IF_ERROR(CheckFit(model, parallelism));
  StateMaker maker(model, parallelism, options);
  std::vector<RankShards> states;
  for (int64_t rank = 0; rank < parallelism.num_ranks(); ++rank) {
    states.push_back(maker.Make(rank));
  }
  return states;
}

StatusOr<RankShards> RankState(const ModelSpec& model,
                               const Parallelism& parallelism, int64_t rank,
                               const StateOptions& options) {
  BELAY_RETURN_IF_ERROR(CheckFit(model, parallelism));
  if (rank < 0 || rank >= parallelism.num_ranks()) {
    return absl::OutOfRangeError(absl::StrFormat(
        "cut model \"%s\" by %s: no such rank (need 0 to %d, found %d)",
        model.name, ToString(parallelism), parallelism.num_ranks() - 1, rank));
  }
  return StateMaker(model, parallelism, options).Make(rank);
}

}  // namespace belay
