#include "workload/fit.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/text.h"
#include "workload/tensor_cut.h"

namespace belay {
namespace {

Status Mistake(const ModelSpec& model, const Parallelism& parallelism,
               const std::string& cause) {
  return absl::InvalidArgumentError(Cat("cut model \"", model.name, "\" by ",
                                        ToString(parallelism), ": ", cause));
}

// Checks the tensor-parallel cut of one tensor. Returns "" if it fits.
std::string TpProblem(const TensorSpec& tensor, int64_t tp) {
  if (tensor.tp_axis < 0 || tp == 1) return "";
  if (tensor.tp_max > 0 && tp > tensor.tp_max) {
    if (tp % tensor.tp_max == 0) return "";
    return absl::StrFormat(
        "\"%s\" has %d parts, of which TP ranks hold copies (need a multiple "
        "of %d, found tp=%d)",
        tensor.name, tensor.tp_max, tensor.tp_max, tp);
  }
  std::vector<int64_t> segments = tensor.tp_segments;
  if (segments.empty()) segments = {tensor.shape[tensor.tp_axis]};
  const int64_t units =
      *std::min_element(segments.begin(), segments.end()) / tensor.tp_unit;
  if (units >= tp) return "";
  return absl::StrFormat(
      "\"%s\" has fewer units along axis %d than there are TP ranks (need "
      "tp=%d or less, found tp=%d)",
      tensor.name, tensor.tp_axis, units, tp);
}

std::string EpProblem(const TensorSpec& tensor, int64_t ep) {
  if (tensor.ep_axis < 0 || tensor.shape[tensor.ep_axis] % ep == 0) return "";
  return absl::StrFormat(
      "\"%s\" has a number of experts that EP ranks do not divide (need a "
      "divisor of %d, found ep=%d)",
      tensor.name, tensor.shape[tensor.ep_axis], ep);
}

}  // namespace

Status CheckFit(const ModelSpec& model, const Parallelism& parallelism) {
  if (parallelism.pp > std::max<int64_t>(1, model.num_layers)) {
    return Mistake(model, parallelism,
                   absl::StrFormat("fewer layers than stages (need pp=%d or "
                                   "less, found pp=%d)",
                                   model.num_layers, parallelism.pp));
  }
  bool has_experts = false;
  for (const TensorSpec& tensor : model.tensors) {
    has_experts = has_experts || IsOfExperts(tensor);
    std::string problem = TpProblem(tensor, parallelism.tp);
    if (problem.empty()) problem = EpProblem(tensor, parallelism.ep);
    if (!problem.empty()) return Mistake(model, parallelism, problem);
  }
  if (parallelism.ep > 1 && !has_experts) {
    return Mistake(model, parallelism, "the model has no experts");
  }
  if (model.num_experts % parallelism.ep != 0) {
    return Mistake(model, parallelism,
                   absl::StrFormat("EP ranks do not divide the experts (need a "
                                   "divisor of %d, found ep=%d)",
                                   model.num_experts, parallelism.ep));
  }
  return absl::OkStatus();
}

}  // namespace belay
