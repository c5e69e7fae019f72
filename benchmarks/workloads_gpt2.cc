// GPT-2 small with AdamW in mixed precision: per tensor bf16 weights, an f32
// master copy and two f32 moments, and one step counter. Tensor parallel over
// 2 ranks, the rest holds replicas.

#include <algorithm>
#include <fstream>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "belay/layout.h"
#include "belay/mesh.h"
#include "contenders.h"
#include "workloads.h"

namespace belay::bench {
namespace {

// One line of the model's TSV file.
struct Tensor {
  std::string name;
  Shape shape;
  int tp_axis = -1;  // -1: whole on every rank
  // The head is the embedding under another name: one array, stored once.
  bool is_tied = false;
};

Status LineError(const std::string& path, const std::string& line) {
  return absl::InvalidArgumentError(
      absl::StrCat("read \"", path, "\": not a tensor: ", line));
}

// Columns: 0 name, 2 global shape, 5 axis cut by tensor parallelism, 14 the
// tensor that it is tied to.
StatusOr<Tensor> ParseTensor(const std::string& path, const std::string& line) {
  const std::vector<std::string> fields = absl::StrSplit(line, '\t');
  if (fields.size() < 15) return LineError(path, line);
  Tensor tensor{.name = fields[0], .is_tied = fields[14] != "-"};
  const std::vector<std::string> lengths = absl::StrSplit(fields[2], ',');
  for (const std::string& length : lengths) {
    int64_t value = 0;
    if (!absl::SimpleAtoi(length, &value)) return LineError(path, line);
    // Half of every axis keeps the shape of the model at 1 / 4 of its size.
    tensor.shape.push_back(std::max<int64_t>(1, value / 2));
  }
  if (fields[5] != "-" && !absl::SimpleAtoi(fields[5], &tensor.tp_axis)) {
    return LineError(path, line);
  }
  return tensor;
}

StatusOr<std::vector<Tensor>> ReadModel(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::vector<Tensor> tensors;
  std::getline(file, line);  // column names
  while (std::getline(file, line)) {
    StatusOr<Tensor> tensor = ParseTensor(path, line);
    if (!tensor.ok()) return tensor.status();
    if (!tensor->is_tied) tensors.push_back(*std::move(tensor));
  }
  if (tensors.empty()) {
    return absl::NotFoundError(
        absl::StrCat("read \"", path, "\": no tensors (see --model)"));
  }
  return tensors;
}

StatusOr<Layout> LayoutOf(const Mesh& mesh, const Tensor& tensor) {
  LayoutAxes axes(tensor.shape.size());
  if (tensor.tp_axis >= 0) axes[tensor.tp_axis] = {"tp"};
  return Layout::Create(mesh, axes);
}

Status AddTensor(Arrays& arrays, const Mesh& mesh, int rank,
                 const Tensor& tensor) {
  StatusOr<Layout> layout = LayoutOf(mesh, tensor);
  if (!layout.ok()) return layout.status();
  StatusOr<Box> box = layout->LocalBox(tensor.shape, rank);
  if (!box.ok()) return box.status();
  const auto add = [&](const char* prefix, DType dtype) {
    arrays.unique_bytes += NumElements(tensor.shape) * DTypeSize(dtype);
    AddPiece(arrays, {.key = absl::StrCat(prefix, tensor.name),
                      .dtype = dtype,
                      .global_shape = tensor.shape,
                      .box = *box,
                      .replica = layout->Replica(rank)});
  };
  add("model/", DType::kBF16);
  add("optimizer/master/", DType::kF32);
  add("optimizer/exp_avg/", DType::kF32);
  add("optimizer/exp_avg_sq/", DType::kF32);
  return absl::OkStatus();
}

StatusOr<std::shared_ptr<Arrays>> MakeGpt2(const Context& context) {
  StatusOr<std::vector<Tensor>> tensors = ReadModel(context.model_file);
  if (!tensors.ok()) return tensors.status();
  const int ranks = context.comm->size();
  const int tp = ranks % 2 == 0 ? 2 : 1;
  StatusOr<Mesh> mesh = Mesh::Create({{"dp", ranks / tp}, {"tp", tp}});
  if (!mesh.ok()) return mesh.status();
  auto arrays = std::make_shared<Arrays>();
  for (Tensor& tensor : *tensors) {
    tensor.shape[0] = Scaled(context, tensor.shape[0]);
    Status status = AddTensor(*arrays, *mesh, context.comm->rank(), tensor);
    if (!status.ok()) return status;
  }
  AddPiece(*arrays, {.key = "optimizer/step",
                     .dtype = DType::kI64,
                     .replica = context.comm->rank()});
  arrays->unique_bytes += DTypeSize(DType::kI64);
  AllocateAndFill(*arrays, ranks);
  return arrays;
}

}  // namespace

Workload SaveGpt2() {
  return {
      .title = "save GPT-2 with AdamW, TP 2 x DP 2",
      .comparisons = {{"save.gpt2", "belay", "pwrite", 1.3},
                      {"save.gpt2.next", "belay.next", "pwrite", {}},
                      {"save.gpt2.canonical", "belay.canonical", "pwrite", {}}},
      .make = [](const Context& context,
                 const Medium& medium) -> StatusOr<std::vector<Contender>> {
        StatusOr<std::shared_ptr<Arrays>> arrays = MakeGpt2(context);
        if (!arrays.ok()) return arrays.status();
        return std::vector<Contender>{
            PlainWrite(context, medium, *arrays),
            BelaySave("belay", context, medium, *arrays),
            BelaySave("belay.next", context, medium, *arrays, {}, true),
            BelaySave("belay.canonical", context, medium, *arrays,
                      {.array_layout = ArrayLayout::kCanonical})};
      }};
}

}  // namespace belay::bench
