// A whole simulation: a model by its name, a save, and perhaps a restore.

#ifndef BELAY_WORKLOAD_SIMULATION_H_
#define BELAY_WORKLOAD_SIMULATION_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "belay/options.h"
#include "belay/status.h"
#include "workload/model_spec.h"
#include "workload/parallelism.h"
#include "workload/simulate.h"

namespace belay {

struct SimulationOptions {
  // A file, or the name of one in the first of the folders that has it, with or
  // without ".tsv" or ".hf.tsv".
  std::string model;
  std::vector<std::string> model_folders;
  std::string from;  // as ParseParallelism reads it
  std::string to;    // the same; empty: no restore
  FileLayout file_layout = FileLayout::kShared;
  ReadSharing read_sharing = ReadSharing::kAuto;
  bool adamw = true;
  int64_t divide = 1;
  int64_t ranks_per_node = 8;
  int64_t pad_vocabulary = 0;
};

// All that was simulated.
struct Simulation {
  ModelSpec model;
  Parallelism from;
  SimulatedSave save;
  std::optional<Parallelism> to;
  SimulatedRestore restore;  // if there is `to`
  int64_t pieces = 0;        // as CountPieces
};

// Plans the save and the restore. Errors: NotFound - no such model, names all;
// InvalidArgument - a number below 1; those of ParseModel, ParseParallelism,
// RankStates, SimulateSave and SimulateRestore.
StatusOr<Simulation> RunSimulation(const SimulationOptions& options);

}  // namespace belay

#endif  // BELAY_WORKLOAD_SIMULATION_H_
