// Tensor cuts: which boxes of one tensor a rank holds, and as which copy.

#ifndef BELAY_WORKLOAD_TENSOR_CUT_H_
#define BELAY_WORKLOAD_TENSOR_CUT_H_

#include <cstdint>
#include <vector>

#include "belay/arrays/box.h"
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

}  // namespace belay

#endif  // BELAY_WORKLOAD_TENSOR_CUT_H_
