// The stages of an export: what each takes, and what it makes.

#ifndef BELAY_SAFETENSORS_EXPORT_STAGES_H_
#define BELAY_SAFETENSORS_EXPORT_STAGES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "belay/safetensors.h"
#include "core/agreed.h"
#include "mpi/collective.h"
#include "pipeline/stages.h"
#include "plan/plan.h"
#include "safetensors/export_files.h"
#include "safetensors/export_plan.h"
#include "storage/reader.h"

namespace belay {

// What every stage knows; none of it is a result of a stage.
struct ExportFrame {
  CommContext& context;
  Stages& stages;
  const std::string& dir;
  std::optional<int64_t> step;  // unset: the newest
  const std::string& out;
  const ExportOptions& options;
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

// What is exported.
struct OpenedExport {
  std::string path;
  SavedCheckpoint saved;  // rank 0 only
  uint64_t identity = 0;  // of the save; rank 0 only
};

// Who writes what.
struct PlannedExport {
  ExportResult result;  // but for what is counted; equal on all ranks
  // Equal on all ranks.
  std::vector<std::string> temporary_paths;  // of all files
  std::vector<std::string> file_names;       // of the checkpoint
  std::vector<FilteredDataset> filtered;
  bool checks = false;
  int64_t num_blocks = 0;
  // This rank's part.
  safetensors::RankExport part;
  RankReads reads;
  // Rank 0 only.
  safetensors::FilePlan plan;
  RestorePlan reading;
};

// Rank 0 chooses, plans the files and who writes what, and each rank gets its
// part. `files` are for their names. Collective; agreed.
// Errors: those of SelectForExport, PlanFiles, PlanExport and PlanRestore.
Agreed<PlannedExport> PlanExported(const ExportFrame& frame,
                                   const OpenedExport& opened,
                                   const ExportFiles& files);

// What this rank has read and written.
struct ExportedData {
  std::vector<uint32_t> registers;
  std::vector<int64_t> covered;
  int64_t bytes = 0;
  int64_t io_calls = 0;
};

// Reads this rank's windows, and writes each into its file.
// Errors: those of ReadAll and PosixFile; FailedPrecondition - this rank does
//   not see the files that rank 0 has made.
StatusOr<ExportedData> WriteWindows(const ExportOptions& options,
                                    const PlannedExport& planned);

}  // namespace belay

#endif  // BELAY_SAFETENSORS_EXPORT_STAGES_H_
