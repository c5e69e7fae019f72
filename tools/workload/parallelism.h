// Parallelism: the number of parts into which a training job splits its model,
// for each kind of parallelism.

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

// The maximum number of simulated ranks.
inline constexpr int64_t kMaxRanks = int64_t{1} << 20;

// Parses "tp=8,pp=4,dp=16,zero=1". Degrees that are not named are 1; zero is 0.
// Errors: InvalidArgument - names the wrong part.
StatusOr<Parallelism> ParseParallelism(std::string_view text);

// Returns "tp=8,pp=4", without degrees of 1; "dp=1" if all are 1.
std::string ToString(const Parallelism& parallelism);

// The coordinates of a rank. From the fastest-varying coordinate to the
// slowest: tensor-parallel, FSDP, data-parallel (with expert-parallel ranks
// adjacent), pipeline stage. This is Megatron's order, in which the groups that
// communicate most share a node.
struct RankPlace {
  int64_t tp = 0;
  int64_t fsdp = 0;
  int64_t dp = 0;
  int64_t pp = 0;

  int64_t ep(const Parallelism& p) const { return dp % p.ep; }

  friend bool operator==(const RankPlace&, const RankPlace&) = default;
};

RankPlace PlaceOf(const Parallelism& parallelism, int64_t rank);

// Fit: checks whether a model can be split with the degrees of a parallelism.

// Checks that the degrees fit the model.
// Errors: InvalidArgument - more ranks than units, layers or experts to split,
//   or a number that does not divide evenly; names the tensor.
Status CheckFit(const ModelSpec& model, const Parallelism& parallelism);

}  // namespace belay

#endif  // BELAY_WORKLOAD_PARALLELISM_H_
