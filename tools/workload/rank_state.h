// Tensor cuts: which boxes of one tensor a rank holds, and as which copy.

#ifndef BELAY_WORKLOAD_RANK_STATE_H_
#define BELAY_WORKLOAD_RANK_STATE_H_

#include <cstdint>
#include <vector>

#include "belay/arrays/box.h"
#include "belay/status.h"
#include "plan/plan.h"
#include "workload/model_spec.h"
#include "workload/parallelism.h"

namespace belay {

// Whether a tensor belongs to experts, and is no copy on the ranks of EP.
bool IsOfExperts(const TensorSpec& tensor);

// The pipeline stage that holds it.
int64_t StageOfTensor(const ModelSpec& model, const TensorSpec& tensor,
                      const Parallelism& parallelism);

// Whether the ranks with these coordinates hold some of it; a tensor that is
// tied counts as well.
bool IsHeld(const ModelSpec& model, const TensorSpec& tensor,
            const Parallelism& parallelism, const RankPlace& place);

// The boxes of a tensor that a rank holds, in the order in which they lie end
// to end: one for each segment, empty ones left out. Requires a parallelism
// that fits.
std::vector<Box> BoxesOfTensor(const TensorSpec& tensor,
                               const Parallelism& parallelism,
                               const RankPlace& place);

// How many TP ranks hold the same part of a tensor: neighbours.
int64_t TensorCopies(const TensorSpec& tensor, const Parallelism& parallelism);

// The number of ranks that split what data-parallel copies have in common, and
// the number of this rank among them.
struct DataPart {
  int64_t parts = 1;
  int64_t index = 0;
};
DataPart DataPartOf(bool of_experts, const Parallelism& parallelism,
                    const RankPlace& place);

// Rank states: what each rank of a training job holds of a model and of the
// state of AdamW, as shards without values.
//
// A tensor is stored under "model/" and its name, what AdamW keeps of it under
// "optimizer/exp_avg/", "optimizer/exp_avg_sq/" and, if the tensor is not f32,
// "optimizer/master/", all f32, and one counter under "optimizer/step".
//
//   TP    cuts tp_axis at multiples of tp_unit, as evenly as it can; what it
//         does not cut is a copy on every rank.
//   PP    puts layer l of L on stage l * PP / L. What is tied to a tensor of
//         another stage is a copy of that tensor, else it is the tensor itself.
//   EP    cuts ep_axis, or puts whole experts on ranks.
//   FSDP  cuts fsdp_axis of what TP leaves into pieces of equal length; the
//         last may be shorter or empty.
//   ZeRO  lays the optimizer's values of one TP and PP rank end to end, those
//         of experts in a buffer of their own, and cuts them into equal ranges.
//         Where TP cuts segments, one follows the other.

struct StateOptions {
  bool adamw = true;
  int64_t ranks_per_node = 8;
  // Vocabularies are padded to a multiple of this for each TP rank, as Megatron
  // does with 128; 0: not at all.
  int64_t pad_vocabulary = 0;
  // Under ZeRO two ranks that hold copies may cut them in different places.
  // Then only the first of them lists them for a save. A restore wants all.
  bool all_copies = false;
};

// What each rank holds, by rank.
// Errors: those of CheckFit.
StatusOr<std::vector<RankShards>> RankStates(const ModelSpec& model,
                                             const Parallelism& parallelism,
                                             const StateOptions& options = {});

// What one rank holds. Errors: those of CheckFit, and OutOfRange - no such
// rank.
StatusOr<RankShards> RankState(const ModelSpec& model,
                               const Parallelism& parallelism, int64_t rank,
                               const StateOptions& options = {});

}  // namespace belay

#endif  // BELAY_WORKLOAD_RANK_STATE_H_
