// Simulation: what a save or a restore of simulated ranks would do, as counts.
//
// The plans are those that Save and Restore make and carry out; no rank, file
// or value is there.

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

// What the ranks do, by rank.
using PerRank = std::vector<int64_t>;

int64_t Sum(const PerRank& values);
int64_t Most(const PerRank& values);
// The most over the mean; 1 if nothing is done.
double Balance(const PerRank& values);

struct SimulatedSave {
  int64_t num_arrays = 0;
  int64_t num_listed = 0;  // shards of all ranks
  int64_t bytes = 0;       // of the arrays, each once
  int64_t num_files = 0;
  int64_t num_datasets = 0;
  int64_t num_chunked = 0;  // of these, in chunks
  int64_t rounds = 0;
  PerRank written_bytes;
  PerRank requests;  // runs of a file that are written in one go
  // Descriptions that go to rank 0, and orders that come back.
  int64_t planning_messages = 0;
  int64_t planning_bytes = 0;
  double plan_seconds = 0;
  SavedCheckpoint saved;  // the index, as far as a plan knows it
};

// The index that a save leaves. Where a dataset lies is known once the file is
// made; here they lie end to end.
SavedCheckpoint IndexOf(const SavePlan& plan);

// What rank 0 knows after all ranks have told it what they hold, as they do in
// a first save; adds what travelled to `counts`.
// Errors: Internal.
StatusOr<ListedRanks> TellRoot(const std::vector<RankShards>& ranks,
                               SimulatedSave& counts);

// Plans a save. Errors: those of PlanSave.
StatusOr<SimulatedSave> SimulateSave(const std::vector<RankShards>& ranks,
                                     FileLayout file_layout);

struct SimulatedRestore {
  int64_t num_arrays = 0;
  int64_t needed_bytes = 0;  // that any rank wants, each once
  PerRank wanted_bytes;
  PerRank read_bytes;
  PerRank requests;         // runs of a file that are read in one go
  PerRank delivered_bytes;  // that other ranks have read for this one
  // Between nodes: what one rank sends to one of another node.
  int64_t messages = 0;
  int64_t message_bytes = 0;
  int64_t rounds = 0;  // in which ranks hand over what they have read
  ReadSharing sharing = ReadSharing::kEachRank;
  std::string note;  // why
  double plan_seconds = 0;
};

// Plans a restore. What of an array reaches past its stored shape is not
// wanted. Errors: those of PlanRestore.
StatusOr<SimulatedRestore> SimulateRestore(const SavedCheckpoint& saved,
                                           std::vector<RankShards> wanted,
                                           const ReadRules& rules);

// How often a box that was saved, each counted once however many ranks held it,
// meets one that a rank wants: the requests of ranks that read for themselves
// from a file for each saved box.
int64_t CountPieces(const std::vector<RankShards>& saved,
                    const std::vector<RankShards>& wanted);

// A whole simulation: a model by its name, a save, and perhaps a restore.

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

#endif  // BELAY_WORKLOAD_SIMULATE_H_
