#include "corpus_messages.h"

#include <cstdint>
#include <string_view>

#include "belay/objects/load_status.h"
#include "core/text.h"
#include "core/wire.h"
#include "fuzz_input.h"
#include "graph/graph_match.h"
#include "graph/load_report.h"
#include "graph/object_graph.h"
#include "plan/listed_ranks.h"
#include "plan/replica_check.h"
#include "plan/restore_planner.h"
#include "plan/stored_arrays.h"
#include "plan/stored_values.h"
#include "safetensors/export_plan.h"
#include "safetensors/import_safetensors.h"

namespace belay {
namespace {

// The kinds of fuzz_plan_messages.cc and fuzz_object_graph.cc, in their order.
enum class PlanMessage : uint8_t {
  kReads,
  kWrites,
  kTransits,
  kValues,
  kSums,
  kImport,
  kExport,
  kStacked,
  kDescription,
};
enum class ObjectMessage : uint8_t { kReport, kMatch, kGraph };

template <typename Kind>
std::string MessageOf(Kind kind, std::string_view message) {
  FuzzInputWriter out;
  out.Put(kind);
  return Cat(out.bytes(), message);
}

// Every array as a whole.
RankShards WholeArrays(const SavedCheckpoint& saved) {
  RankShards rank;
  for (const StoredArray& array : saved.arrays) {
    rank.shards.push_back({.key = array.key,
                           .dtype = array.dtype,
                           .global_shape = array.shape,
                           .box = WholeBox(array.shape),
                           .string_bytes = array.string_bytes,
                           .layout = array.layout,
                           .fields = array.fields});
  }
  return rank;
}

std::vector<StackedArray> StacksOf(const SavedCheckpoint& saved) {
  std::vector<StackedArray> stacks;
  const std::vector<ArrayEntry> entries = ArrayEntries(saved);
  for (size_t i = 0; i < entries.size(); ++i) {
    StackedArray& stack = stacks.emplace_back(saved.arrays[i]);
    for (const StoredDataset& dataset : entries[i].datasets) stack.Add(dataset);
  }
  return stacks;
}

std::string EntriesOf(const Entries& entries) {
  WireWriter out;
  out(entries);
  return out.Take();
}

std::vector<safetensors::FileTensor> Tensors() {
  return {{"a", DType::kF32, {}, {4, 3}, 0, 48},
          {"b", DType::kI8, {}, {5}, 48, 53}};
}

std::string ExportOf(const std::vector<safetensors::FileTensor>& tensors) {
  const safetensors::FilePlan files =
      safetensors::PlanFiles(tensors, {}, "model", 0).value();
  return Encode(safetensors::PlanExport(files, 2, 16).value().front());
}

// What is planned and sent for one checkpoint.
void AddPlan(const SavedCheckpoint& saved, std::vector<std::string>& inputs) {
  const RankShards wanted = WholeArrays(saved);
  const StatusOr<RestorePlan> plan =
      PlanRestore(saved, {wanted, wanted}, {.sharing = ReadSharing::kOnce});
  if (plan.ok()) {
    inputs.push_back(MessageOf(PlanMessage::kReads, Encode(plan->ranks[1])));
  }
  inputs.push_back(MessageOf(PlanMessage::kValues, Encode(AllValues(saved))));
  inputs.push_back(MessageOf(PlanMessage::kStacked, Encode(StacksOf(saved))));
  inputs.push_back(MessageOf(PlanMessage::kDescription,
                             EntriesOf(Describe(wanted, 0, 4).shared)));
  inputs.push_back(MessageOf(PlanMessage::kDescription,
                             EntriesOf(Describe(wanted, 3, 4).own)));
}

}  // namespace

std::vector<std::string> ObjectMessages(
    const std::vector<SavedCheckpoint>& checkpoints) {
  std::vector<std::string> inputs;
  for (const SavedCheckpoint& saved : checkpoints) {
    const StatusOr<ObjectGraph> graph =
        FromStoredGraph(saved.graph, saved.arrays, saved.values);
    if (!graph.ok() || graph->nodes.empty()) continue;
    inputs.push_back(MessageOf(ObjectMessage::kGraph, EncodeGraph(*graph)));
  }
  const Mismatch mismatch{.attribute = 1,
                          .key = "layer/kernel",
                          .needed = "f32 [4, 3]",
                          .found = "f32 [4, 2]"};
  const RankMatch match{.rank = 1,
                        .nodes = {NodeMatch::kBound, NodeMatch::kDeferred},
                        .used = {AttributeUse::kUsed, AttributeUse::kSkipped},
                        .renamed = {{0, "layer/bias"}},
                        .mismatches = {mismatch},
                        .conversions = {mismatch},
                        .missing = {"step"},
                        .defaulted = {"rate"},
                        .unmatched_objects = {"decoder"},
                        .warnings = {"two objects"}};
  inputs.push_back(MessageOf(ObjectMessage::kMatch, Encode(match)));
  LoadReport report{.ranks = {0, 2}, .num_objects = 3};
  report.skipped = {"a"};
  report.defaulted = {"b", "c"};
  report.deferred = {"d"};
  report.unmatched_objects = {"e"};
  report.warnings = {"f"};
  report.missing.emplace_back();
  report.matched.emplace_back();
  report.unused.emplace_back();
  report.incompatible.emplace_back();
  inputs.push_back(MessageOf(ObjectMessage::kReport, Encode(report)));
  return inputs;
}

std::vector<std::string> PlanMessages(
    const std::vector<SavedCheckpoint>& checkpoints) {
  std::vector<std::string> inputs;
  for (const SavedCheckpoint& saved : checkpoints) {
    if (inputs.size() < 8) AddPlan(saved, inputs);
  }
  const Box box{{1, 0}, {2, 3}};
  const RankWrites writes{
      .bytes = 24,
      .orders = {{.shard = 1, .dataset = 2, .box = box, .extent = {box, 96}}}};
  inputs.push_back(MessageOf(PlanMessage::kWrites,
                             Encode(std::vector<RankWrites>{writes, {}})));
  inputs.push_back(
      MessageOf(PlanMessage::kTransits,
                Encode(RankTransits{.sends = {{1, 0, 8}}, .receives = {{}}})));
  inputs.push_back(MessageOf(
      PlanMessage::kSums, Encode(std::vector<ReplicaSum>{{"w", box, 77, 3}})));
  const std::vector<safetensors::FileTensor> tensors = Tensors();
  inputs.push_back(
      MessageOf(PlanMessage::kImport,
                Encode(safetensors::PlanImport({{8, tensors}}, 2).front())));
  inputs.push_back(MessageOf(PlanMessage::kExport, ExportOf(tensors)));
  // Evenly divided rows, which are described once for all ranks.
  const RankShards rows{.shards = {{.key = "rows",
                                    .dtype = DType::kF32,
                                    .global_shape = {9, 3},
                                    .box = {{3, 0}, {2, 3}}}}};
  inputs.push_back(MessageOf(PlanMessage::kDescription,
                             EntriesOf(Describe(rows, 1, 4).shared)));
  // Counts that no message of this length has.
  for (uint8_t kind = 0;
       kind <= static_cast<uint8_t>(PlanMessage::kDescription); ++kind) {
    inputs.push_back(MessageOf(PlanMessage{kind}, std::string(16, '\x7f')));
  }
  return inputs;
}

}  // namespace belay
