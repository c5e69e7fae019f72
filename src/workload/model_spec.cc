#include "workload/model_spec.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/status_macros.h"
#include "base/text.h"

namespace belay {
namespace {

int64_t Shorter(int64_t length, int64_t divisor) {
  return std::max<int64_t>(1, length / divisor);
}

void Divide(int64_t divisor, TensorSpec& tensor) {
  for (size_t axis = 0; axis < tensor.shape.size(); ++axis) {
    const auto number = static_cast<int32_t>(axis);
    if (number == tensor.ep_axis || number == tensor.tp_axis) continue;
    tensor.shape[axis] = Shorter(tensor.shape[axis], divisor);
  }
  if (tensor.tp_axis < 0) return;
  int64_t& length = tensor.shape[tensor.tp_axis];
  const int64_t unit = tensor.tp_unit;
  if (unit > 1) tensor.tp_unit = Shorter(unit, divisor);
  const auto shorten = [&](int64_t old) {
    return unit > 1 ? old / unit * tensor.tp_unit : Shorter(old, divisor);
  };
  length = shorten(length);
  if (tensor.tp_segments.empty()) return;
  length = 0;
  for (int64_t& segment : tensor.tp_segments) {
    segment = shorten(segment);
    length += segment;
  }
}

}  // namespace

StatusOr<ModelSpec> ReadModel(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return absl::NotFoundError(Cat("read \"", path, "\": no such model file"));
  }
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  if (file.bad()) {
    return absl::InternalError(Cat("read \"", path, "\": cannot be read"));
  }
  BELAY_ASSIGN_OR_RETURN(ModelSpec model, ParseModel(path, text));
  model.name = std::filesystem::path(path).stem().string();
  return model;
}

int64_t NumParameters(const ModelSpec& model) {
  int64_t sum = 0;
  for (const TensorSpec& tensor : model.tensors) {
    if (tensor.tied_to.empty()) sum += NumElements(tensor.shape);
  }
  return sum;
}

ModelSpec Divided(ModelSpec model, int64_t divisor) {
  for (TensorSpec& tensor : model.tensors) Divide(divisor, tensor);
  return model;
}

}  // namespace belay
