// Simulation: counts what a save or a restore of simulated ranks would do.
//
// The plans are those that Save and Restore make and execute, but there are no
// ranks, files or values.

#ifndef BELAY_WORKLOAD_SIMULATE_H_
#define BELAY_WORKLOAD_SIMULATE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "belay/options.h"
#include "belay/status.h"
#include "plan/listed_ranks.h"
#include "plan/plan.h"
#include "plan/restore_planner.h"
#include "workload/model_spec.h"
#include "workload/parallelism.h"

namespace belay {

// A count for each rank.
using PerRank = std::vector<int64_t>;

int64_t Sum(const PerRank& values);
int64_t Most(const PerRank& values);
// Returns the maximum divided by the mean; 1 if all values are 0.
double Balance(const PerRank& values);

struct SimulatedSave {
  int64_t num_arrays = 0;
  int64_t num_listed = 0;  // shards of all ranks
  int64_t bytes = 0;       // of the arrays, without replicas
  int64_t num_files = 0;
  int64_t num_datasets = 0;
  int64_t num_chunked = 0;  // of these, stored in chunks
  int64_t rounds = 0;
  PerRank written_bytes;
  PerRank requests;  // runs of a file, each written by one call
  // Descriptions sent to rank 0, and write orders sent back.
  int64_t planning_messages = 0;
  int64_t planning_bytes = 0;
  double plan_seconds = 0;
  SavedCheckpoint saved;  // the index, as far as the plan determines it
};

// Returns the index that a save would write. The positions of datasets are
// known only when the file is created; here they are consecutive.
SavedCheckpoint IndexOf(const SavePlan& plan);

// Returns what rank 0 knows after all ranks have sent it their lists, as in a
// first save; adds the messages to `counts`.
// Errors: Internal.
StatusOr<ListedRanks> TellRoot(const std::vector<RankShards>& ranks,
                               SimulatedSave& counts);

// Plans a save. Errors: those of PlanSave.
StatusOr<SimulatedSave> SimulateSave(const std::vector<RankShards>& ranks,
                                     FileLayout file_layout);

struct SimulatedRestore {
  int64_t num_arrays = 0;
  int64_t needed_bytes = 0;  // needed by any rank, each byte once
  PerRank wanted_bytes;
  PerRank read_bytes;
  PerRank requests;         // runs of a file, each read by one call
  PerRank delivered_bytes;  // read by other ranks for this one
  // Messages between ranks of different nodes.
  int64_t messages = 0;
  int64_t message_bytes = 0;
  int64_t rounds = 0;  // in which ranks deliver what they have read
  ReadSharing sharing = ReadSharing::kEachRank;
  std::string note;  // why
  double plan_seconds = 0;
};

// Plans a restore. Parts of wanted boxes outside the stored shape are dropped.
// Errors: those of PlanRestore.
StatusOr<SimulatedRestore> SimulateRestore(const SavedCheckpoint& saved,
                                           std::vector<RankShards> wanted,
                                           const ReadRules& rules);

// Returns the number of pairs of a saved box (counted once for all replicas)
// and an overlapping box that a rank wants. This is the number of requests if
// each rank reads for itself from one file per saved box.
int64_t CountPieces(const std::vector<RankShards>& saved,
                    const std::vector<RankShards>& wanted);

// A complete simulation: a model by its name, a save, and optionally a restore.

struct SimulationOptions {
  // A file, or the name of one in the first of the folders that has it, with or
  // without ".tsv" or ".hf.tsv".
  std::string model;
  std::vector<std::string> model_folders;
  std::string from;  // as parsed by ParseParallelism
  std::string to;    // the same; empty: no restore
  FileLayout file_layout = FileLayout::kShared;
  ReadSharing read_sharing = ReadSharing::kAuto;
  bool adamw = true;
  int64_t divide = 1;
  int64_t ranks_per_node = 8;
  int64_t pad_vocabulary = 0;
};

// The results of a simulation.
struct Simulation {
  ModelSpec model;
  Parallelism from;
  SimulatedSave save;
  std::optional<Parallelism> to;
  SimulatedRestore restore;  // if `to` is set
  int64_t pieces = 0;        // as CountPieces
};

// Plans the save and the restore. Errors: NotFound - no such model, names all;
// InvalidArgument - a number below 1; those of ParseModel, ParseParallelism,
// RankStates, SimulateSave and SimulateRestore.
StatusOr<Simulation> RunSimulation(const SimulationOptions& options);

}  // namespace belay

#endif  // BELAY_WORKLOAD_SIMULATE_H_
