// Planning for a large model, without its values: Llama 3 70B, whose tensors
// are computed from the number of layers and a few sizes.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "belay/values/sharding_policy.h"
#include "workloads.h"

namespace belay::bench {
namespace {

constexpr int64_t kLayers = 80;
constexpr int64_t kHidden = 8192;
constexpr int64_t kKeys = 1024;  // 8 groups of 128
constexpr int64_t kFeedForward = 28672;
constexpr int64_t kVocabulary = 128256;
constexpr int64_t kParameters = 70553706496;  // as published
constexpr int64_t kMaxShardBytes = int64_t{64} << 20;
constexpr double kPlanLimitMs = 50;

using Model = std::vector<ShardableTensor>;

void AddTensor(Model& model, const std::string& key, const Shape& shape) {
  model.push_back({.key = key,
                   .dtype = DType::kBF16,
                   .global_shape = shape,
                   .box = WholeBox(shape),
                   .device = RankDevice("belay", 0, 0),
                   .bytes = 2 * NumElements(shape)});
}

void AddLayer(Model& model, int64_t layer) {
  const std::string prefix = absl::StrCat("model.layers.", layer, ".");
  const std::vector<std::pair<std::string, Shape>> tensors = {
      {"input_layernorm", {kHidden}},
      {"self_attn.q_proj", {kHidden, kHidden}},
      {"self_attn.k_proj", {kKeys, kHidden}},
      {"self_attn.v_proj", {kKeys, kHidden}},
      {"self_attn.o_proj", {kHidden, kHidden}},
      {"post_attention_layernorm", {kHidden}},
      {"mlp.gate_proj", {kFeedForward, kHidden}},
      {"mlp.up_proj", {kFeedForward, kHidden}},
      {"mlp.down_proj", {kHidden, kFeedForward}},
  };
  for (const auto& [name, shape] : tensors) {
    AddTensor(model, prefix + name + ".weight", shape);
  }
}

Model Llama3With70B() {
  Model model;
  AddTensor(model, "model.embed_tokens.weight", {kVocabulary, kHidden});
  for (int64_t layer = 0; layer < kLayers; ++layer) AddLayer(model, layer);
  AddTensor(model, "model.norm.weight", {kHidden});
  AddTensor(model, "lm_head.weight", {kVocabulary, kHidden});
  return model;
}

Status CheckParameters(const Model& model) {
  int64_t found = 0;
  for (const ShardableTensor& tensor : model) {
    found += NumElements(tensor.global_shape);
  }
  if (found == kParameters) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("another model (need ", kParameters,
                                          " parameters, found ", found, ")"));
}

// Runs policy, splits and validation on rank 0, as in a save.
Contender Plan(const Context& context) {
  struct Run {
    Model model = Llama3With70B();
    int64_t groups = 0;
  };
  const auto run = std::make_shared<Run>();
  const bool plans = context.comm->rank() == 0;
  return {.name = "belay",
          .run = [run, plans]() -> Status {
            if (!plans) return absl::OkStatus();
            StatusOr<std::vector<Grouping>> planned =
                ApplyPolicy(MaxShardSize(kMaxShardBytes), run->model);
            if (!planned.ok()) return planned.status();
            run->groups = planned->front().groups.size();
            return absl::OkStatus();
          },
          .check = [run] { return CheckParameters(run->model); },
          .clean = nullptr,
          .detail =
              [run] {
                return absl::StrCat(run->model.size(), " tensors, ",
                                    run->groups, " groups");
              }};
}

}  // namespace

Workload PlanMaxShardSize() {
  return {.title = "plan shards of 64 MiB for Llama 3 70B",
          .comparisons = {{.name = "plan.max_shard_size",
                           .contender = "belay",
                           .baseline = "",
                           .bar = 1.0,
                           .limit_ms = kPlanLimitMs}},
          .uses_files = false,
          .make = [](const Context& context,
                     const Medium&) -> StatusOr<std::vector<Contender>> {
            return std::vector<Contender>{Plan(context)};
          }};
}

}  // namespace belay::bench
