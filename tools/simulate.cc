#include "workload/simulate.h"

#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "commands.h"
#include "json_output.h"
#include "number_text.h"

namespace belay::tools {
namespace {

namespace fs = std::filesystem;

// Returns the folders with models: next to an installed command, or in the
// source tree.
std::vector<std::string> ModelFolders() {
  std::error_code ignored;
  const fs::path command = fs::read_symlink("/proc/self/exe", ignored);
  return {(command.parent_path().parent_path() / BELAY_MODELS).string(),
          BELAY_SOURCE_MODELS};
}

StatusOr<FileLayout> FilesOf(const std::string& name) {
  if (name == "shared") return FileLayout::kShared;
  if (name == "node") return FileLayout::kPerNode;
  if (name == "task") return FileLayout::kPerTask;
  return absl::InvalidArgumentError(absl::StrFormat(
      "simulate: unknown file layout (need shared, node or task, found \"%s\")",
      name));
}

StatusOr<Simulation> Run(const SimulateOptions& options) {
  StatusOr<FileLayout> files = FilesOf(options.files);
  if (!files.ok()) return files.status();
  StatusOr<ReadSharing> sharing = SharingOf("simulate", options.read);
  if (!sharing.ok()) return sharing.status();
  return RunSimulation({.model = options.model,
                        .model_folders = ModelFolders(),
                        .from = options.from,
                        .to = options.to,
                        .file_layout = *files,
                        .read_sharing = *sharing,
                        .adamw = !options.weights,
                        .divide = options.divide,
                        .ranks_per_node = options.ranks_per_node,
                        .pad_vocabulary = options.pad_vocabulary});
}

double Mean(const PerRank& values) {
  return static_cast<double>(Sum(values)) / static_cast<double>(values.size());
}

Json RowJson(const PerRank& values) {
  return {{"all", Sum(values)},
          {"mean", Mean(values)},
          {"most", Most(values)},
          {"most_to_mean", Balance(values)}};
}

void PrintAsJson(const Simulation& simulation) {
  const SimulatedSave& save = simulation.save;
  Json json = {{"model", TextJson(simulation.model.name)},
               {"parameters", NumParameters(simulation.model)},
               {"save",
                {{"parallelism", ToString(simulation.from)},
                 {"ranks", simulation.from.num_ranks()},
                 {"arrays", save.num_arrays},
                 {"boxes", save.num_listed},
                 {"bytes", save.bytes},
                 {"files", save.num_files},
                 {"datasets", save.num_datasets},
                 {"chunked_datasets", save.num_chunked},
                 {"rounds", save.rounds},
                 {"written_bytes", RowJson(save.written_bytes)},
                 {"requests", RowJson(save.requests)},
                 {"planning_messages", save.planning_messages},
                 {"planning_bytes", save.planning_bytes},
                 {"plan_seconds", save.plan_seconds}}}};
  if (simulation.to) {
    const SimulatedRestore& restore = simulation.restore;
    json["restore"] = {{"parallelism", ToString(*simulation.to)},
                       {"ranks", simulation.to->num_ranks()},
                       {"note", restore.note},
                       {"needed_bytes", restore.needed_bytes},
                       {"pieces", simulation.pieces},
                       {"wanted_bytes", RowJson(restore.wanted_bytes)},
                       {"read_bytes", RowJson(restore.read_bytes)},
                       {"requests", RowJson(restore.requests)},
                       {"delivered_bytes", RowJson(restore.delivered_bytes)},
                       {"messages", restore.messages},
                       {"message_bytes", restore.message_bytes},
                       {"rounds", restore.rounds},
                       {"plan_seconds", restore.plan_seconds}};
  }
  PrintJson(json);
}

void PrintHead(const std::string& what, const Parallelism& parallelism,
               const SimulateOptions& options, double seconds) {
  const int64_t ranks = parallelism.num_ranks();
  const int64_t nodes =
      (ranks + options.ranks_per_node - 1) / options.ranks_per_node;
  Print("%s %s: %s, %s, planned in %.3g s\n", what, ToString(parallelism),
        CountText(ranks, "rank"), CountText(nodes, "node"), seconds);
}

void PrintColumns() {
  Print("  %-10s  %11s  %11s  %11s  %9s\n", "", "all ranks", "mean", "most",
        "most/mean");
}

void PrintBytes(const std::string& name, const PerRank& values) {
  Print("  %-10s  %11s  %11s  %11s  %9.3f\n", name, BytesText(Sum(values)),
        BytesText(static_cast<int64_t>(Mean(values))), BytesText(Most(values)),
        Balance(values));
}

void PrintCounts(const std::string& name, const PerRank& values) {
  Print("  %-10s  %11d  %11.1f  %11d  %9.3f\n", name, Sum(values), Mean(values),
        Most(values), Balance(values));
}

void PrintSave(const Simulation& simulation, const SimulateOptions& options) {
  const SimulatedSave& save = simulation.save;
  PrintHead("save", simulation.from, options, save.plan_seconds);
  Print("  %s in %s, %s, %s of them in chunks, %s\n",
        CountText(save.num_arrays, "array"), CountText(save.num_files, "file"),
        CountText(save.num_datasets, "dataset"), absl::StrCat(save.num_chunked),
        CountText(save.rounds, "round"));
  Print("  plan: %d boxes, %s, %s through rank 0\n", save.num_listed,
        CountText(save.planning_messages, "message"),
        BytesText(save.planning_bytes));
  PrintColumns();
  PrintBytes("writes", save.written_bytes);
  PrintCounts("requests", save.requests);
}

double Ratio(int64_t a, int64_t b) {
  return b == 0 ? 1 : static_cast<double>(a) / static_cast<double>(b);
}

void PrintRestore(const Simulation& simulation,
                  const SimulateOptions& options) {
  const SimulatedRestore& restore = simulation.restore;
  const int64_t read = Sum(restore.read_bytes);
  const int64_t requests = Sum(restore.requests);
  PrintHead("\nrestore", *simulation.to, options, restore.plan_seconds);
  Print("  %s\n", restore.note);
  Print("  read/needed %.3f: %s of %s; requests/pieces %.3f: %d of %d\n",
        Ratio(read, restore.needed_bytes), BytesText(read),
        BytesText(restore.needed_bytes), Ratio(requests, simulation.pieces),
        requests, simulation.pieces);
  Print("  between nodes: %s, %s; %s\n", CountText(restore.messages, "message"),
        BytesText(restore.message_bytes), CountText(restore.rounds, "round"));
  PrintColumns();
  PrintBytes("wants", restore.wanted_bytes);
  PrintBytes("reads", restore.read_bytes);
  PrintCounts("requests", restore.requests);
  PrintBytes("gets", restore.delivered_bytes);
}

}  // namespace

int Simulate(const SimulateOptions& options) {
  const StatusOr<Simulation> simulation = Run(options);
  if (!simulation.ok()) return Fail(simulation.status(), options.json);
  if (options.json) {
    PrintAsJson(*simulation);
    return 0;
  }
  Print("%s: %d parameters, %s with%s\n\n", simulation->model.name,
        NumParameters(simulation->model), BytesText(simulation->save.bytes),
        options.weights ? "out the state of AdamW" : " the state of AdamW");
  PrintSave(*simulation, options);
  if (simulation->to) PrintRestore(*simulation, options);
  return 0;
}

}  // namespace belay::tools
