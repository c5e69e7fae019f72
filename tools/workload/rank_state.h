// Tensor parts: which boxes of one tensor a rank holds, and which copy they
// are.

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

// True if a tensor belongs to experts, so that EP ranks do not hold copies of
// it.
bool IsOfExperts(const TensorSpec& tensor);

// Returns the pipeline stage that holds the tensor.
int64_t StageOfTensor(const ModelSpec& model, const TensorSpec& tensor,
                      const Parallelism& parallelism);

// True if the ranks with these coordinates hold a part of the tensor, including
// a tied tensor.
bool IsHeld(const ModelSpec& model, const TensorSpec& tensor,
            const Parallelism& parallelism, const RankPlace& place);

// Returns the boxes of a tensor that a rank holds, in the order in which they
// are concatenated: one for each segment, without empty ones. Requires a
// parallelism that fits.
std::vector<Box> BoxesOfTensor(const TensorSpec& tensor,
                               const Parallelism& parallelism,
                               const RankPlace& place);

// Returns how many TP ranks, which are adjacent, hold the same part of a
// tensor.
int64_t TensorCopies(const TensorSpec& tensor, const Parallelism& parallelism);

// The number of ranks that split the common data of data-parallel copies, and
// the index of this rank among them.
struct DataPart {
  int64_t parts = 1;
  int64_t index = 0;
};
DataPart DataPartOf(bool of_experts, const Parallelism& parallelism,
                    const RankPlace& place);

// Rank states: the parts of a model and of AdamW's state that each rank of a
// training job holds, as shards without values.
//
// A tensor is stored under "model/" and its name, its AdamW state under
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
  // Vocabularies are padded to a multiple of this for each TP rank (Megatron
  // uses 128); 0: no padding.
  int64_t pad_vocabulary = 0;
  // Under ZeRO, two ranks that hold copies may split them at different
  // positions. Then only the first rank lists them for a save. A restore needs
  // all.
  bool all_copies = false;
};

// Returns the shards of each rank, by rank.
// Errors: those of CheckFit.
StatusOr<std::vector<RankShards>> RankStates(const ModelSpec& model,
                                             const Parallelism& parallelism,
                                             const StateOptions& options = {});

// Returns the shards of one rank.
// Errors: those of CheckFit; OutOfRange - no such rank.
StatusOr<RankShards> RankState(const ModelSpec& model,
                               const Parallelism& parallelism, int64_t rank,
                               const StateOptions& options = {});

}  // namespace belay

#endif  // BELAY_WORKLOAD_RANK_STATE_H_
