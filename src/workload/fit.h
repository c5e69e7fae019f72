// Fit: whether the degrees of a parallelism can cut a model.

#ifndef BELAY_WORKLOAD_FIT_H_
#define BELAY_WORKLOAD_FIT_H_

#include "belay/status.h"
#include "workload/model_spec.h"
#include "workload/parallelism.h"

namespace belay {

// Checks that the degrees fit the model.
// Errors: InvalidArgument - more ranks than units, layers or experts to cut, or
//   a number that does not divide; names the tensor.
Status CheckFit(const ModelSpec& model, const Parallelism& parallelism);

}  // namespace belay

#endif  // BELAY_WORKLOAD_FIT_H_
