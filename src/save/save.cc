#include <cstring>
#include <span>

#include "absl/strings/str_format.h"
#include "base/catch_bad_alloc.h"
#include "base/catch_exceptions.h"
#include "base/log.h"
#include "base/nonce.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "belay/save_restore.h"
#include "bytes/fingerprint.h"
#include "bytes/wire.h"
#include "format/paths.h"
#include "io/index/index_file.h"
#include "io/index/verify.h"
#include "io/steps/commit.h"
#include "io/steps/metadata_file.h"
#include "job/job_name.h"
#include "manager/rules/metadata_text.h"
#include "pipeline/listing.h"
#include "pipeline/result_text.h"
#include "pipeline/save_options.h"
#include "pipeline/shared_directory.h"
#include "save/save_at.h"
#include "save/save_run.h"

namespace belay {
namespace {

// A name that would be taken for something else.
Status CheckPath(const std::string& path) {
  if (path.empty()) {
    return absl::InvalidArgumentError(
        "save \"\": the path is empty; the current directory is \".\"");
  }
  const std::string name = NameOf(path);
  if (!name.empty() && name != "." && name != ".." && !IsInProgress(name) &&
      !IsReplaced(name)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrFormat("save \"%s\": a checkpoint cannot have this name", path));
}

Status CheckArguments(const SaveRun& run, const State& state) {
  BELAY_RETURN_IF_ERROR(state.status());
  if (run.step < 0) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "save \"%s\": step is out of range (need 0 to %d, found %d)",
        ParentOf(run.path), INT64_MAX, run.step));
  }
  BELAY_RETURN_IF_ERROR(CheckPath(run.path));
  return CheckSaveOptions(absl::StrFormat("save \"%s\"", ParentOf(run.path)),
                          run.options);
}

std::string EncodeOptions(const SaveOptions& options) {
  WireWriter out;
  for (const CommonOption& option : CommonSaveOptions(options)) {
    out.PutText(option.bytes);
  }
  return out.Take();
}

// Says what it is that ranks disagree on. Collective.
Status FindDifference(SaveRun& run) {
  BELAY_RETURN_IF_AGREED(AgreeSame(run.team, "save: the directory",
                                   Fingerprint(ParentOf(run.path))));
  BELAY_RETURN_IF_AGREED(AgreeSameNumber(run.team, "save: the step", run.step));
  BELAY_RETURN_IF_AGREED(
      AgreeSame(run.team, "save: the name", Fingerprint(run.path)));
  for (const CommonOption& option : CommonSaveOptions(run.options)) {
    BELAY_RETURN_IF_AGREED(AgreeSame(run.team,
                                     Cat("save: the option ", option.name),
                                     Fingerprint(option.bytes)));
  }
  return absl::OkStatus();
}

// What each shard is stored as; kept as long as the structure is the same.
// Local.
Status FindForms(SaveRun& run) {
  run.cache.is_valid = false;
  BELAY_ASSIGN_OR_RETURN(run.cache.forms,
                         FormsToStore(run.shards, run.options));
  return CheckHandledForms(run.listing.values, run.shards, run.cache.forms);
}

// Asks the handlers what their values consist of. Local.
Status ListValues(SaveRun& run, const State& state) {
  BELAY_RETURN_IF_ERROR(CheckArguments(run, state));
  BELAY_ASSIGN_OR_RETURN(run.listing, CatchExceptions([&] {
                           return ListForSave(state, *run.handlers);
                         }));
  run.shards = ListShards(run.listing.shards, run.team.rank());
  return MapToDevices(run.shards, {.job_name = JobName()}, run.team.rank());
}

// Stage list: the arguments are sound and equal, and all ranks or none can
// reuse their plan. Collective.
Status Begin(SaveRun& run, const SaveJob& job) {
  run.stages.Enter("list");
  Status status = ListValues(run, job.state);
  const std::string options = EncodeOptions(run.options);
  WireWriter structure;
  if (status.ok()) {
    structure.Put(run.team.size());
    PutStructure(run.shards, structure);
    PutListedValues(structure, run.listing.values);
    structure.PutText(options);
    structure.Put(job.graph_fingerprint);
    structure.Put(run.team.rank());  // rank 0 keeps more than others
  }
  const uint64_t fingerprint = Fingerprint(structure.bytes());
  const bool fits = run.cache.is_valid && run.cache.fingerprint == fingerprint;
  if (status.ok() && !fits) status = FindForms(run);

  WireWriter same;
  same.PutText(run.path);
  same.Put(run.step);
  same.PutText(options);
  const std::vector<uint64_t> numbers = {Fingerprint(same.bytes()),
                                         fits ? run.cache.plan_id : 0};
  // For nothing: it travels with what has to be agreed on anyway.
  uint64_t replicas = 0;
  if (status.ok() && fits) {
    status = CatchBadAlloc("the bytes of replicas", [&] {
      replicas = SumReplicas(run);
      return absl::OkStatus();
    });
  }
  BELAY_ASSIGN_OR_RETURN_AGREED(
      const std::vector<bool> is_same,
      AgreeOnStructure(run.team, status, numbers, std::span(&replicas, 1)));
  if (!is_same[0]) BELAY_RETURN_IF_AGREED(FindDifference(run));
  run.reuse = fits && is_same[1];
  run.cache.is_valid = false;  // until this save has succeeded
  if (run.reuse && replicas != 0) return NameDifferentReplicas(run);
  run.cache.num_reuses = run.reuse ? run.cache.num_reuses + 1 : 0;
  run.cache.fingerprint = fingerprint;
  return absl::OkStatus();
}

// Stage plan. Collective.
Status Plan(SaveRun& run, const SaveJob& job) {
  if (run.reuse) return TakePlaces(run);
  run.stages.Enter("plan");
  std::vector<KeyRows> keys = job.rows;  // rank 0 only
  BELAY_RETURN_IF_AGREED(PlaceRowsTogether(run, keys));
  BELAY_RETURN_IF_AGREED(TakePlaces(run));
  BELAY_ASSIGN_OR_RETURN_AGREED(
      run.cache.planned,
      PlanTogether(run.team, ParentOf(run.path),
                   {.node = 0,
                    .shards = DescribeShards(run.shards, run.cache.forms),
                    .values = run.listing.values,
                    .job = JobOf(run.shards)},
                   run.options, run.cache.sent_lists));
  SavedCheckpoint& saved = run.cache.planned.saved;
  saved.rows = RowsOfArrays(keys, saved.arrays);
  return absl::OkStatus();
}

NewFile NewFileOf(const SaveRun& run, const PlannedFile& file) {
  return {.path = run.DataPath(file),
          .space = file.space,
          .hints = run.options.mpi_io_hints};
}

// Makes a file of which nothing is known yet. Local.
StatusOr<SkeletonImage> CreateNewFile(const SaveRun& run,
                                      const PlannedFile& file) {
  SkeletonImage image;
  BELAY_ASSIGN_OR_RETURN(image.skeleton,
                         CreateSkeleton(NewFileOf(run, file), file.datasets));
  if (!run.keep) return image;
  return CaptureImage(run.DataPath(file), file.datasets, image.skeleton);
}

// Makes the files that this rank is to make. Local.
Status CreateMyFiles(SaveRun& run) {
  std::vector<SkeletonImage>& skeletons = run.cache.skeletons;
  if (!run.reuse) skeletons.clear();
  size_t next = 0;
  for (const PlannedFile& file : run.cache.planned.files) {
    if (!file.is_creator) continue;
    if (run.reuse) {
      BELAY_RETURN_IF_ERROR(
          CreateFromImage(NewFileOf(run, file), skeletons[next++]));
      continue;
    }
    BELAY_ASSIGN_OR_RETURN(skeletons.emplace_back(), CreateNewFile(run, file));
  }
  return absl::OkStatus();
}

// Returns the nonce as bytes. Rank 0 only.
StatusOr<std::string> BeginOnRoot(SaveRun& run) {
  if (!run.options.metadata.empty()) {
    BELAY_ASSIGN_OR_RETURN(run.metadata, MetadataText(run.options.metadata));
  }
  run.nonce = NewNonce();
  const Status status = BeginStep(run.path, run.options.overwrite,
                                  run.options.durable, run.nonce);
  run.began = !absl::IsAlreadyExists(status);
  BELAY_RETURN_IF_ERROR(status);
  run.has_directory = true;
  return std::string(reinterpret_cast<const char*>(&run.nonce),
                     sizeof(run.nonce));
}

// Stage reserve: directory, skeletons, space. Collective.
Status Reserve(SaveRun& run) {
  run.stages.Enter("reserve");
  BELAY_ASSIGN_OR_RETURN_AGREED(
      const std::string nonce,
      FromRoot(run.team, [&] { return BeginOnRoot(run); }));
  std::memcpy(&run.nonce, nonce.data(), sizeof(run.nonce));
  if (!run.reuse) run.cache.plan_id = run.nonce | 1;  // 0 is none
  const double patience = SharedDirectorySeconds(run.options.deadline_seconds);
  const StatusOr<bool> sees = WaitForStep(run.path, run.nonce, patience);
  Status status = sees.status();
  if (sees.value_or(false)) status = CreateMyFiles(run);
  if (status.ok() && run.team.is_root()) status = FindFinalizers(run);
  BELAY_RETURN_IF_AGREED(AgreeOnSharedDirectory(
      run.team, status, sees.value_or(true), run.is_managed,
      Cat("save \"", run.Directory(), "\""), patience));
  if (run.reuse) return absl::OkStatus();
  return Place(run.team, run.cache.skeletons, StripingsOfMine(run),
               run.cache.planned);
}

// What the program has to say before the commit. Rank 0 only.
Status AskBeforeCommit(SaveRun& run) {
  if (run.options.before_commit == nullptr) return absl::OkStatus();
  const Status status = CatchExceptions(
      [&] { return run.options.before_commit(run.Directory(), run.step); });
  if (status.ok()) return status;
  run.handler_failed = true;  // the program has, not the file system
  return Status(status.code(), absl::StrFormat("save \"%s\": before_commit: %s",
                                               run.path, status.message()));
}

// Tells the program of a commit that stands. Rank 0 only.
void TellAfterCommit(const SaveRun& run) {
  if (run.options.after_commit == nullptr || !run.team.is_root()) return;
  const Status status = CatchExceptions([&]() -> Status {
    run.options.after_commit(run.result);
    return absl::OkStatus();
  });
  if (status.ok()) return;
  Log(LogLevel::kWarning, Cat("save \"", run.path, "\": after_commit: ",
                              std::string(status.message())));
}

// Rank 0 only.
Status WriteIndexAndCommit(SaveRun& run) {
  BELAY_RETURN_IF_ERROR(FinalizeHandlers(run));
  CachedPlan& cache = run.cache;
  // Where nothing was written, nobody has prepared it.
  if (!run.has_index) BELAY_RETURN_IF_ERROR(PrepareIndex(run));
  std::vector<uint32_t> checksums;
  if (run.options.checksums) {
    checksums = FinishChecksums(cache.planned.saved.arrays, run.registers);
  }
  const bool durable = run.options.durable;
  if (!run.metadata.empty()) {
    BELAY_RETURN_IF_ERROR(
        WriteMetadataFile(run.Directory(), run.metadata, durable));
  }
  BELAY_RETURN_IF_ERROR(
      FinishIndex(run.IndexPath(), cache.index, run.step, checksums, durable));
  BELAY_RETURN_IF_ERROR(AskBeforeCommit(run));
  BELAY_ASSIGN_OR_RETURN(run.is_owner, IsOurs(run.path, run.nonce));
  BELAY_RETURN_IF_ERROR(CommitStep(run.path, durable, run.nonce));
  run.committed = true;
  return absl::OkStatus();
}

// Stages merge and commit. Collective.
Status Commit(SaveRun& run) {
  run.stages.Enter("commit");
  return OnRoot(run.team, [&] { return WriteIndexAndCommit(run); });
}

// After Carry: no rank may believe in a step that another one does not. Local.
void CleanUp(SaveRun& run, const Status& status) {
  if (!run.team.is_root()) return;
  // What was there before this save is not ours.
  if (!run.began) return;
  // Under the temporary name lies the old step of a commit that stands.
  if (!status.ok() && run.committed && !UndoCommit(run.path).ok()) {
    return;
  }
  // Another save of this step may have taken the directory over.
  const StatusOr<bool> ours = IsOurs(run.path, run.nonce);
  if (!run.is_owner && !(ours.ok() && *ours)) return;
  RemoveDebris(run.path);
}

// Fills in what the caller gets to see. The step is committed: counters that
// cannot be combined stay those of this rank. Collective.
void Report(SaveRun& run) {
  SaveResult& result = run.result;
  result.path = run.path;
  result.step = run.step;
  result.num_arrays = run.cache.planned.num_arrays;
  result.rounds = run.cache.planned.rounds;
  result.plan_reused = run.reuse;
  result.warnings = run.cache.planned.warnings;
  result.counters.files = run.cache.planned.num_files;
  result.counters.peak_memory_bytes = PeakMemoryBytes();
  result.counters.stages = run.stages.Finish();
  CombineSaveCounters(run).IgnoreError();
}

// Why a save failed, if another one has taken its directory over: what ranks
// noticed then may be anything. Rank 0 only.
Status FindRival(const SaveRun& run) {
  if (!run.has_directory || run.is_owner) return absl::OkStatus();
  const Status ours = CheckOurs("save", run.path, run.nonce);
  return absl::IsFailedPrecondition(ours) ? ours : absl::OkStatus();
}

// Returns the reason of a failure that is agreed, for all ranks. Collective.
Status ReasonOf(SaveRun& run, const Status& failure) {
  const Status rival = OnRoot(run.team, [&] { return FindRival(run); });
  return absl::IsFailedPrecondition(rival) ? rival : failure;
}

// All stages once the directory may exist. Collective.
Status Carry(SaveRun& run) {
  BELAY_RETURN_IF_AGREED(Reserve(run));
  BELAY_RETURN_IF_AGREED(WriteStage(run));
  BELAY_RETURN_IF_AGREED(VerifyStage(run));
  return Commit(run);
}

// Collective; agreed.
StatusOr<SaveResult> RunStages(SaveRun& run, const SaveJob& job) {
  BELAY_RETURN_IF_AGREED(Begin(run, job));
  BELAY_RETURN_IF_AGREED(Plan(run, job));
  BELAY_RETURN_IF_AGREED(CompareReplicas(run));
  Status status = Carry(run);
  if (!status.ok()) status = ReasonOf(run, status);
  if (job.at_files != nullptr) *job.at_files = !run.handler_failed;
  CleanUp(run, status);
  BELAY_RETURN_IF_AGREED(status);
  Report(run);
  TellAfterCommit(run);
  // How long files with filters are is another matter each time.
  run.cache.is_valid = run.keep && !run.cache.planned.has_filters;
  return std::move(run.result);
}

}  // namespace

StatusOr<SaveResult> SaveAt(const Comm& comm, const SaveJob& job,
                            const SaveOptions& options) {
  BELAY_RETURN_IF_AGREED(CheckComm(comm, "save", ParentOf(job.path)));
  PlanCache own;
  Team team{comm, Deadline(comm, options.deadline_seconds,
                           absl::StrFormat("save \"%s\"", job.path))};
  team.messages = job.messages;
  team.agreement_bytes = job.agreement_bytes;
  SaveRun run{.team = std::move(team),
              .stages = Stages(run.team, job.stages),
              .path = WithoutSlashes(job.path),
              .step = job.step,
              .options = options,
              .handlers = HandlersOf(options.handlers),
              .shards = {},
              .graph = job.graph,
              .cache = PlanOf(options.cache != nullptr ? *options.cache : own),
              .keep = options.cache != nullptr,
              .registers = {},
              .progress = job.progress,
              .is_managed = job.at_files != nullptr,
              .result = {}};
  StatusOr<SaveResult> result = RunStages(run, job);
  LogResult(run.team, result);
  return result;
}

StatusOr<SaveResult> Save(const Comm& comm, const std::string& dir,
                          int64_t step, const State& state,
                          const SaveOptions& options) {
  return SaveAt(comm,
                {.path = dir.empty() ? "" : StepPath(dir, step),
                 .step = step,
                 .state = state},
                options);
}

}  // namespace belay
