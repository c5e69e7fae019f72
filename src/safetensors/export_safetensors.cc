#include <algorithm>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/nonce.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "belay/checkpoint_reader.h"
#include "belay/safetensors.h"
#include "bytes/fingerprint.h"
#include "bytes/wire.h"
#include "io/files/posix_file.h"
#include "io/index/index_file.h"
#include "io/steps/missing_step.h"
#include "pipeline/agree_arguments.h"
#include "pipeline/save_options.h"
#include "restore/compare_together.h"
#include "safetensors/export_run.h"

namespace belay {
namespace {

Status CheckArguments(ExportRun& run) {
  const ExportOptions& options = run.options;
  const std::string start = absl::StrFormat("export \"%s\"", run.dir);
  if (run.step.value_or(0) < 0) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%s: step is out of range (need 0 to %d, found %d)",
                        start, INT64_MAX, *run.step));
  }
  if (options.max_file_bytes < 0) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "%s: max_file_bytes is out of range (need at least 0, found %d)", start,
        options.max_file_bytes));
  }
  BELAY_RETURN_IF_ERROR(CheckBytesInFlight(start, options.max_bytes_in_flight));
  BELAY_RETURN_IF_ERROR(CheckDeadlineSeconds(start, options.deadline_seconds));
  BELAY_ASSIGN_OR_RETURN(run.files.place, PlaceOfExport(run.out));
  return absl::OkStatus();
}

// All that has to be the same on all ranks.
std::vector<CommonOption> CommonArguments(const ExportRun& run) {
  const ExportOptions& options = run.options;
  WireWriter metadata, keys;
  for (const auto& [name, text] : options.metadata) {
    metadata.PutText(name);
    metadata.PutText(text);
  }
  keys.PutTexts(options.keys);
  const auto number = [](const char* name, int64_t value) {
    WireWriter out;
    out.Put(value);
    return CommonOption{name, out.Take()};
  };
  return {
      {"the directory", run.dir},
      {"the step", run.step ? absl::StrFormat("%d", *run.step) : ""},
      {"the destination", run.out},
      {"the option keys", keys.Take()},
      {"the option metadata", metadata.Take()},
      number("the option leave_out_others", options.leave_out_others),
      number("the option max_file_bytes", options.max_file_bytes),
      number("the option overwrite", options.overwrite),
      number("the option checksums", options.checksums),
      number("the option durable", options.durable),
      number("the option max_bytes_in_flight", options.max_bytes_in_flight)};
}

// Stage list. Collective.
Status Begin(ExportRun& run) {
  run.stages.Enter("list");
  BELAY_RETURN_IF_AGREED(Agree(run.team, CheckArguments(run)));
  return AgreeOnArguments(run.team, "export", CommonArguments(run));
}

// Rank 0 only.
Status OpenOnRoot(ExportRun& run) {
  std::string path;
  if (run.step) {
    path = StepPath(run.dir, *run.step);
  } else {
    BELAY_ASSIGN_OR_RETURN(path, ResolveStep(run.dir));
  }
  StatusOr<SavedCheckpoint> saved = ReadIndex(path);
  if (absl::IsNotFound(saved.status())) {
    return NoSuchStep("export", path);
  }
  BELAY_RETURN_IF_ERROR(saved.status());
  run.saved = *std::move(saved);
  run.result.path = path;
  run.result.step = run.saved.step;
  return CheckDataFiles(path, run.saved);
}

// Stage open. Collective.
Status Open(ExportRun& run) {
  run.stages.Enter("open");
  return OnRoot(run.team, [&] { return OpenOnRoot(run); });
}

// So that whoever waits in vain has an error before the deadline.
double LockSeconds(double deadline_seconds) {
  constexpr double kMost = 30;
  return deadline_seconds > 0 ? std::min(kMost, deadline_seconds / 2) : kMost;
}

// Rank 0 only.
Status ReserveOnRoot(ExportRun& run) {
  BELAY_RETURN_IF_ERROR(BeginExport(run.files));
  for (const safetensors::PlannedFile& file : run.plan.files) {
    BELAY_RETURN_IF_ERROR(
        MakeExportFile(run.files, file.name, file.head, file.bytes));
  }
  if (run.plan.index_name.empty()) return absl::OkStatus();
  return MakeExportFile(run.files, run.plan.index_name, run.plan.index_text,
                        std::ssize(run.plan.index_text));
}

// Stage verify. Collective.
Status Verify(ExportRun& run) {
  if (!run.checks) return absl::OkStatus();
  run.stages.Enter("verify");
  BELAY_ASSIGN_OR_RETURN_AGREED(
      const BlockCounts counts,
      CompareTogether(run.team,
                      absl::StrFormat("export \"%s\"", run.result.path),
                      {run.saved, run.reading, run.registers, run.covered}));
  run.result.blocks_verified = counts.verified;
  run.result.blocks_partial = counts.partial;
  return absl::OkStatus();
}

// All stages once there may be files. Collective.
Status Carry(ExportRun& run) {
  run.stages.Enter("reserve");
  BELAY_RETURN_IF_AGREED(OnRoot(run.team, [&] { return ReserveOnRoot(run); }));
  run.stages.Enter("write");
  BELAY_RETURN_IF_AGREED(Agree(run.team, WriteWindows(run)));
  BELAY_RETURN_IF_AGREED(Verify(run));
  run.stages.Enter("commit");
  return OnRoot(run.team, [&] { return NameExport(run.files); });
}

// After Carry: either all files have their names, or none is left. Local.
void CleanUp(ExportRun& run, const Status& status) {
  if (!run.team.is_root()) return;
  if (status.ok()) {
    FinishExport(run.files);
  } else {
    UndoExport(run.files);
  }
}

// The files have their names: counters that cannot be combined stay those of
// this rank. Collective.
void Report(ExportRun& run) {
  TransferCounters& counters = run.result.counters;
  counters.files = std::ssize(run.result.files);
  counters.peak_memory_bytes = PeakMemoryBytes();
  counters.stages = run.stages.Finish();
  CombineCounters(run.team, counters).IgnoreError();
}

}  // namespace

ExportRun::ExportRun(const Comm& comm, const std::string& from,
                     std::optional<int64_t> number, const std::string& to,
                     const ExportOptions& chosen)
    : team{comm, Deadline(comm, chosen.deadline_seconds,
                          absl::StrFormat("export \"%s\"", from))},
      stages(team),
      dir(from),
      step(number),
      out(to),
      options(chosen),
      files{.place = {},
            .nonce = NewNonce(),
            .overwrite = chosen.overwrite,
            .durable = chosen.durable,
            .lock_seconds = LockSeconds(chosen.deadline_seconds)} {}

StatusOr<ExportResult> ExportSafetensors(const Comm& comm,
                                         const std::string& dir,
                                         std::optional<int64_t> step,
                                         const std::string& out,
                                         const ExportOptions& options) {
  BELAY_RETURN_IF_AGREED(CheckComm(comm, "export", dir));
  ExportRun run(comm, dir, step, out, options);
  BELAY_RETURN_IF_AGREED(Begin(run));
  BELAY_RETURN_IF_AGREED(Open(run));
  BELAY_RETURN_IF_AGREED(PlanExportStage(run));
  const Status status = Carry(run);
  CleanUp(run, status);
  BELAY_RETURN_IF_AGREED(status);
  Report(run);
  return std::move(run.result);
}

}  // namespace belay
