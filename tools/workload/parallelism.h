// Parallelism: into how many parts a training job cuts its model in each way.

#ifndef BELAY_WORKLOAD_PARALLELISM_H_
#define BELAY_WORKLOAD_PARALLELISM_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "belay/status.h"
#include "workload/model_spec.h"

namespace belay {

struct Parallelism {
  int64_t tp = 1;     // tensor
  int64_t pp = 1;     // pipeline
  int64_t dp = 1;     // data: groups of ranks that hold copies
  int64_t fsdp = 1;   // fully sharded data
  int64_t ep = 1;     // expert: a part of the data-parallel ranks
  bool zero = false;  // ZeRO-1: each data-parallel rank has a part of the
                      // optimizer's state

  int64_t num_ranks() const { return tp * pp * dp * fsdp; }

  friend bool operator==(const Parallelism&, const Parallelism&) = default;
};

// The most ranks that are simulated.
inline constexpr int64_t kMaxRanks = int64_t{1} << 20;

// Reads "tp=8,pp=4,dp=16,zero=1"; what is not named is 1, and zero 0.
// Errors: InvalidArgument - names the part that is wrong.
StatusOr<Parallelism> ParseParallelism(std::string_view text);

// "tp=8,pp=4", without what is 1; "dp=1" if all is.
std::string ToString(const Parallelism& parallelism);

// The coordinates of a rank. The ranks of a tensor-parallel group are
// neighbours, then those of an FSDP group, then data-parallel ones, of which
// the expert-parallel are neighbours, and those of a stage last: Megatron's
// order, by which the groups that talk most share a node.
struct RankPlace {
  int64_t tp = 0;
  int64_t fsdp = 0;
  int64_t dp = 0;
  int64_t pp = 0;

  int64_t ep(const Parallelism& p) const { return dp % p.ep; }

  friend bool operator==(const RankPlace&, const RankPlace&) = default;
};

RankPlace PlaceOf(const Parallelism& parallelism, int64_t rank);

// Fit: whether the degrees of a parallelism can cut a model.

// Checks that the degrees fit the model.
// Errors: InvalidArgument - more ranks than units, layers or experts to cut, or
//   a number that does not divide; names the tensor.
Status CheckFit(const ModelSpec& model, const Parallelism& parallelism);

}  // namespace belay

#endif  // BELAY_WORKLOAD_PARALLELISM_H_
