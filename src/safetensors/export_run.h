// One export on one rank, and the stages that have a file of their own.

#ifndef BELAY_SAFETENSORS_EXPORT_RUN_H_
#define BELAY_SAFETENSORS_EXPORT_RUN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "belay/safetensors.h"
#include "mpi/collective.h"
#include "pipeline/stages.h"
#include "plan/plan.h"
#include "safetensors/export_files.h"
#include "safetensors/plan/export_plan.h"

namespace belay {

// Its arguments, and what the stages hand on. Neither copied nor moved.
struct ExportRun {
  ExportRun(const Comm& comm, const std::string& from,
            std::optional<int64_t> number, const std::string& to,
            const ExportOptions& chosen);

  Team team;
  Stages stages;
  std::string dir;
  std::optional<int64_t> step;  // unset: the newest
  std::string out;
  const ExportOptions& options;
  // Rank 0 only.
  SavedCheckpoint saved;
  safetensors::FilePlan plan;
  RestorePlan reading;
  ExportFiles files;
  // This rank's part.
  safetensors::RankExport part;
  RankReads reads;
  std::vector<std::string> temporary_paths;  // of all files
  std::vector<std::string> file_names;       // of the checkpoint
  std::vector<FilteredDataset> filtered;
  bool checks = false;  // equal on all ranks
  std::vector<uint32_t> registers;
  std::vector<int64_t> covered;
  ExportResult result;
};

// What of a checkpoint goes into an export.
struct ExportSelection {
  std::vector<safetensors::FileTensor> tensors;
  safetensors::Metadata metadata;
  std::vector<LeftOut> left_out;
};

// Chooses by the options, and reads the metadata that is stored in the step
// directory `path`. Rank 0 only.
// Errors: FailedPrecondition - values that the format has no form for;
//   InvalidArgument - an expression that is none or matches nothing; those of
//   reading.
StatusOr<ExportSelection> SelectForExport(const std::string& path,
                                          const SavedCheckpoint& saved,
                                          const ExportOptions& options);

// Stage plan: rank 0 chooses, plans the files and who writes what, and each
// rank gets its part. Collective; agreed.
Status PlanExportStage(ExportRun& run);

// Reads this rank's windows, and writes each into its file. Local.
// Errors: those of ReadAll and PosixFile; FailedPrecondition - this rank does
//   not see the files that rank 0 has made.
Status WriteWindows(ExportRun& run);

}  // namespace belay

#endif  // BELAY_SAFETENSORS_EXPORT_RUN_H_
