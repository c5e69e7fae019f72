#include "workload/simulation.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "workload/rank_state.h"

namespace belay {
namespace {

// The names of all models that are there, for messages.
std::string KnownModels(const std::vector<std::string>& folders) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const std::string& folder : folders) {
    for (const auto& entry :
         std::filesystem::directory_iterator(folder, ignored)) {
      names.push_back(entry.path().stem().string());
    }
    if (!names.empty()) break;
  }
  std::sort(names.begin(), names.end());
  return absl::StrJoin(names, ", ");
}

StatusOr<ModelSpec> FindModel(const SimulationOptions& options) {
  std::error_code ignored;
  if (std::filesystem::is_regular_file(options.model, ignored)) {
    return ReadModel(options.model);
  }
  for (const std::string& folder : options.model_folders) {
    for (const char* ending : {".tsv", ".hf.tsv"}) {
      const std::string path = absl::StrCat(folder, "/", options.model, ending);
      if (std::filesystem::is_regular_file(path, ignored)) {
        return ReadModel(path);
      }
    }
  }
  return absl::NotFoundError(absl::StrFormat(
      "simulate: no such model (need a file or one of %s, found \"%s\")",
      KnownModels(options.model_folders), options.model));
}

Status CheckNumbers(const SimulationOptions& options) {
  if (options.divide >= 1 && options.ranks_per_node >= 1 &&
      options.pad_vocabulary >= 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrFormat(
      "simulate: need at least 1 to divide by, 1 rank per node and 0 for the "
      "vocabulary, found %d, %d and %d",
      options.divide, options.ranks_per_node, options.pad_vocabulary));
}

Status AddRestore(const SimulationOptions& options, const StateOptions& states,
                  const std::vector<RankShards>& saved,
                  Simulation& simulation) {
  StatusOr<Parallelism> to = ParseParallelism(options.to);
  if (!to.ok()) return to.status();
  StateOptions wanted_states = states;
  wanted_states.all_copies = true;
  StatusOr<std::vector<RankShards>> wanted =
      RankStates(simulation.model, *to, wanted_states);
  if (!wanted.ok()) return wanted.status();
  StatusOr<SimulatedRestore> restore = SimulateRestore(
      simulation.save.saved, *wanted, {.sharing = options.read_sharing});
  if (!restore.ok()) return restore.status();
  simulation.to = *to;
  simulation.restore = *std::move(restore);
  simulation.pieces = CountPieces(saved, *wanted);
  return absl::OkStatus();
}

}  // namespace

StatusOr<Simulation> RunSimulation(const SimulationOptions& options) {
  Status checked = CheckNumbers(options);
  if (!checked.ok()) return checked;
  StatusOr<ModelSpec> model = FindModel(options);
  if (!model.ok()) return model.status();
  StatusOr<Parallelism> from = ParseParallelism(options.from);
  if (!from.ok()) return from.status();
  Simulation simulation{.model = Divided(*std::move(model), options.divide),
                        .from = *from};
  const StateOptions states = {.adamw = options.adamw,
                               .ranks_per_node = options.ranks_per_node,
                               .pad_vocabulary = options.pad_vocabulary};
  StatusOr<std::vector<RankShards>> saved =
      RankStates(simulation.model, *from, states);
  if (!saved.ok()) return saved.status();
  StatusOr<SimulatedSave> save = SimulateSave(*saved, options.file_layout);
  if (!save.ok()) return save.status();
  simulation.save = *std::move(save);
  if (options.to.empty()) return simulation;
  Status status = AddRestore(options, states, *saved, simulation);
  if (!status.ok()) return status;
  return simulation;
}

}  // namespace belay
