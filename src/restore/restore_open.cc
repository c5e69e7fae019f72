// The open stage of a restore. It finds the step and reads its index.

#include "belay/checkpoint_reader.h"
#include "core/agreed.h"
#include "core/option_table.h"
#include "core/program_words.h"
#include "format/paths.h"
#include "pipeline/result_text.h"
#include "restore/flat_file.h"
#include "restore/restore_stages.h"
#include "storage/commit.h"
#include "storage/filtered_reader.h"
#include "storage/index_file.h"
#include "storage/posix_file.h"

namespace belay {

StatusOr<RestoreResult> Restore(const Comm& comm, const ChosenStep& chosen,
                                const State& state,
                                const RestoreOptions& options) {
  BELAY_RETURN_IF_AGREED(CheckComm(comm, "restore", chosen.path_));
  RestoreSource source{
      .path = chosen.path_, .step = chosen.step_, .identity = chosen.identity_};
  if (chosen.identity_ == 0) {
    source.problem = absl::FailedPreconditionError(absl::StrFormat(
        "restore \"%s\": no step was chosen: call ChooseStep", chosen.path_));
  }
  return RestoreState(comm, source, state, options);
}

StatusOr<ChosenStep> ChooseStep(const Comm& comm, const std::string& dir,
                                std::optional<int64_t> step,
                                const RestoreOptions& options) {
  BELAY_RETURN_IF_AGREED(CheckComm(comm, "restore", dir));
  const RestoreSource source = MakeSource(dir, step);
  RestoreFrame frame(comm, source.path, options);
  BELAY_RETURN_IF_AGREED(BeginRestore(frame, source));
  BELAY_ASSIGN_OR_RETURN_AGREED(OpenedStep opened, OpenStep(frame, source));
  BELAY_RETURN_IF_AGREED(PinRestore(frame, opened.source));
  ChosenStep chosen;
  chosen.path_ = opened.source.path;
  chosen.step_ = opened.source.step;
  chosen.identity_ = opened.source.identity;
  return chosen;
}

// --- Resolve step ---

namespace {

Status IsUncommitted(std::string_view operation, const std::string& path) {
  return absl::NotFoundError(
      Cat(operation, " \"", path,
          "\": not committed; it is a save that is running or was killed"));
}

// Describes a directory without a committed step.
Status NothingCommitted(const std::string& path) {
  BELAY_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                         ListDirectory(path));
  for (const std::string& name : names) {
    if (!IsInProgress(name)) continue;
    return absl::NotFoundError(
        absl::StrFormat("open \"%s\": no step is committed; \"%s\" is a save "
                        "that is running or was killed",
                        path, name));
  }
  const bool was_step = ParseStepName(GetLastName(path)) ||
                        std::ranges::any_of(names, IsDataFile);
  if (was_step) return NoIndex("open", path);
  return absl::NotFoundError(absl::StrFormat(
      "open \"%s\": neither a committed step nor a directory of steps", path));
}

}  // namespace

StatusOr<std::string> ResolveStep(const std::string& path) {
  const std::string name = WithoutSlashes(path);
  if (IsInProgress(name)) return IsUncommitted("open", name);
  const StatusOr<bool> is_step = IsStep(name);
  if (is_step.ok() && *is_step) return name;
  // The default series is listed separately: another series must not take its
  // place because a listing has missed its only step.
  const StatusOr<std::vector<int64_t>> usual =
      CommittedSteps(name, kStepPrefix);
  if (usual.ok() && !usual->empty()) return StepPath(name, usual->back());
  const StatusOr<std::vector<StepLabel>> steps = CommittedLabels(name);
  if (absl::IsInvalidArgument(steps.status())) {
    return absl::NotFoundError(
        absl::StrFormat("open \"%s\": not a directory; need a step directory "
                        "or a directory of steps (Checkpoint::Restore reads "
                        "HDF5 files of other programs)",
                        path));
  }
  BELAY_RETURN_IF_ERROR(steps.status());
  if (steps->empty()) return NothingCommitted(name);
  const StepLabel& newest = steps->back();
  if (steps->front().prefix != newest.prefix) {
    return absl::NotFoundError(absl::StrFormat(
        "open \"%s\": several series of steps, the first \"%s\" and the last "
        "\"%s\"; name one of the steps",
        name, steps->front().prefix, newest.prefix));
  }
  return StepPath(name, newest.step, newest.prefix);
}

// --- List steps ---

std::string StepPath(const std::string& dir, int64_t step,
                     std::string_view prefix) {
  return JoinPath(dir, StepName(step, prefix));
}

StatusOr<std::vector<int64_t>> ListSteps(const std::string& dir,
                                         std::string_view prefix) {
  BELAY_RETURN_IF_ERROR(CheckIsNoStep("list steps in", dir));
  return CommittedSteps(dir, prefix);
}

namespace {

// Finds the checkpoint. Rank 0 only.
Status FindStep(RestoreSource& source) {
  using Kind = RestoreSource::Kind;
  const Kind kind = source.kind;
  if (kind == Kind::kCheckpoint || kind == Kind::kFlatFile) {
    return absl::OkStatus();
  }
  source.kind = Kind::kCheckpoint;
  if (kind == Kind::kAny) {
    if (absl::IsInvalidArgument(ListDirectory(source.path).status())) {
      source.kind = Kind::kFlatFile;
      return absl::OkStatus();
    }
    BELAY_ASSIGN_OR_RETURN(source.path, ResolveStep(source.path));
    return absl::OkStatus();
  }
  if (IsInProgress(GetLastName(WithoutSlashes(source.path)))) {
    return IsUncommitted("restore", source.path);
  }
  BELAY_ASSIGN_OR_RETURN(const bool is_step, IsStep(source.path));
  if (is_step) return absl::OkStatus();
  const StatusOr<std::vector<int64_t>> steps =
      CommittedSteps(source.path, kStepPrefix);
  if (steps.ok() && steps->empty()) {
    const std::string path = WithoutSlashes(source.path);
    if (ParseStepName(GetLastName(path))) return NoIndex("restore", path);
    return absl::NotFoundError(absl::StrFormat(
        "restore \"%s\": the directory has no committed step", source.path));
  }
  if (absl::IsNotFound(steps.status()) && !source.path.empty()) {
    return absl::NotFoundError(absl::StrFormat(
        "restore \"%s\": there is no such directory%s", source.path,
        source.path.starts_with('/') ? ""
                                     : " in the working directory of rank 0"));
  }
  BELAY_RETURN_IF_ERROR(steps.status());
  source.step = steps->back();
  source.path = StepPath(source.path, source.step);
  return absl::OkStatus();
}

// Returns true if there is nothing to continue from, which is not an error:
// there is no directory, or it has no committed steps. Returns false for an
// empty path, and for damaged or unfinished steps, which OpenIndex reports as
// errors. Rank 0 only.
StatusOr<bool> HoldsNothing(const std::string& path) {
  if (path.empty() || IsInProgress(GetLastName(WithoutSlashes(path)))) {
    return false;
  }
  const StatusOr<std::vector<std::string>> names = ListDirectory(path);
  if (absl::IsNotFound(names.status())) return true;
  BELAY_RETURN_IF_ERROR(names.status());
  if (std::ranges::any_of(*names, [](const std::string& name) {
        return name == IndexName() || IsDataFile(name);
      })) {
    return false;
  }
  BELAY_ASSIGN_OR_RETURN(const std::vector<int64_t> steps,
                         CommittedSteps(path, kStepPrefix));
  return steps.empty();
}

// Finds the identity of the save before anything is read. If a later save
// replaces it, CheckUnchanged detects that. Rank 0 only.
Status TakeIdentity(RestoreSource& source) {
  const bool is_flat = source.kind == RestoreSource::Kind::kFlatFile;
  BELAY_ASSIGN_OR_RETURN(
      const uint64_t found,
      is_flat ? FileIdentity(source.path) : IndexIdentity(source.path));
  if (source.identity != 0 && source.identity != found) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "restore \"%s\": another save has replaced the step since the restore "
        "was asked for",
        source.path));
  }
  source.identity = found;
  return absl::OkStatus();
}

// Rank 0 only.
Status IsUnchanged(const RestoreSource& source) {
  return source.kind == RestoreSource::Kind::kFlatFile
             ? CheckSameFile("restore", source.path, source.identity)
             : CheckSameStep("restore", source.path, source.identity);
}

// Rank 0 only.
Status OpenFlatFile(OpenedStep& opened, const RestoreFrame& frame) {
  BELAY_RETURN_IF_ERROR(TakeIdentity(opened.source));
  BELAY_ASSIGN_OR_RETURN(
      const std::vector<FlatArray> arrays,
      ListFlatFile(opened.source.path, frame.options.deadline_seconds));
  for (const FlatArray& array : arrays) {
    const bool takes_text = array.dtype == DType::kString;
    const std::string& problem =
        array.too_large.empty() || (frame.has_memory && !takes_text)
            ? array.problem
            : array.too_large;
    if (problem.empty()) {
      if (!array.too_large.empty()) {
        opened.too_large.emplace(array.key, array.too_large);
      }
      opened.saved.arrays.push_back(
          {.key = array.key, .dtype = array.dtype, .shape = array.shape});
    } else {
      opened.problems.push_back(absl::StrFormat(
          "dataset \"%s\" cannot be read: %s", array.key, problem));
    }
  }
  opened.source.step = 0;
  return absl::OkStatus();
}

// Rank 0 only.
Status OpenFound(OpenedStep& opened, const RestoreFrame& frame) {
  RestoreSource& source = opened.source;
  if (source.kind == RestoreSource::Kind::kFlatFile) {
    return OpenFlatFile(opened, frame);
  }
  const Status identified = TakeIdentity(source);
  if (absl::IsNotFound(identified)) return NoSuchStep("restore", source.path);
  BELAY_RETURN_IF_ERROR(identified);
  StatusOr<SavedCheckpoint> saved = ReadIndex(source.path);
  if (absl::IsNotFound(saved.status())) {
    return NoSuchStep("restore", source.path);
  }
  BELAY_RETURN_IF_ERROR(saved.status());
  opened.saved = *std::move(saved);
  if (source.step >= 0 && opened.saved.step != source.step) {
    return absl::DataLossError(absl::StrFormat(
        "restore \"%s\": the index is of another step (need %d, found %d); to "
        "restore a copy pass the path of the step itself with %s",
        source.path, source.step, opened.saved.step,
        kLatestStepWord.InProgram()));
  }
  source.step = opened.saved.step;
  Status complete = CheckDataFiles(source.path, opened.saved);
  // Checked before ranks allocate the memory that the index asks for.
  if (complete.ok()) complete = CheckStoredChunks(source.path, opened.saved);
  if (!complete.ok()) BELAY_RETURN_IF_ERROR(IsUnchanged(source));
  return complete;
}

// Rank 0 only.
Status OpenIndex(OpenedStep& opened, const RestoreFrame& frame) {
  const OpenedStep asked = opened;
  return OpenResolved(
      [&]() -> StatusOr<std::string> {
        opened = asked;
        BELAY_RETURN_IF_ERROR(FindStep(opened.source));
        return opened.source.path;
      },
      [&](const std::string& path) {
        return WithEarlierStep(OpenFound(opened, frame), path);
      });
}

}  // namespace

Agreed<OpenedStep> OpenStep(RestoreFrame& frame, const RestoreSource& source) {
  frame.stages.Enter("open");
  OpenedStep opened{.source = source};
  const Agreed<> found =
      OnRoot(frame.context, [&] { return OpenIndex(opened, frame); });
  if (!found.ok()) LogError(frame.context, found.status());
  BELAY_RETURN_IF_AGREED(found);
  return opened;
}

Agreed<std::optional<OpenedStep>> OpenStepIfAny(RestoreFrame& frame,
                                                const RestoreSource& source) {
  frame.stages.Enter("open");
  OpenedStep opened{.source = source};
  const Agreed<bool> found =
      ShareFromRoot<bool>(frame.context, [&]() -> StatusOr<bool> {
        BELAY_ASSIGN_OR_RETURN(const bool nothing, HoldsNothing(source.path));
        if (!nothing) BELAY_RETURN_IF_ERROR(OpenIndex(opened, frame));
        return !nothing;
      });
  if (!found.ok()) LogError(frame.context, found.status());
  BELAY_RETURN_IF_AGREED(found);
  if (!*found) {
    LogNoStep(frame.context, source.path);
    return std::nullopt;
  }
  return opened;
}

Agreed<> CheckUnchanged(RestoreFrame& frame, const OpenedStep& opened,
                        const Status& status, const Status& mine) {
  Status all;
  if (frame.context.is_root()) all = IsUnchanged(opened.source);
  if (status.ok()) all.Update(mine);
  return Agree(frame.context, all);
}

Agreed<> PinRestore(RestoreFrame& frame, RestoreSource& source) {
  BELAY_ASSIGN_OR_RETURN_AGREED(
      source,
      ShareFromRoot<RestoreSource>(
          frame.context, [&]() -> StatusOr<RestoreSource> { return source; }));
  return {};
}

// --- Arguments of values ---

namespace {

// Checks that every entry of the arguments matches a key of some rank.
// Collective; agreed.
Agreed<> CheckEntriesMatch(CommContext& context, const KeyPatterns& patterns,
                           const std::vector<std::string_view>& keys) {
  std::vector<int64_t> unmatched = patterns.Unmatched(keys);
  if (unmatched.empty()) return {};
  BELAY_RETURN_IF_AGREED(MinAll(context, unmatched));
  const auto first = std::find(unmatched.begin(), unmatched.end(), 1);
  if (first == unmatched.end()) return {};
  return OnRoot(context, [&] {
    return patterns.NoMatchError(static_cast<size_t>(first - unmatched.begin()),
                                 keys, OptionName(&RestoreOptions::args));
  });
}

}  // namespace

Agreed<RestoreChooser> AgreeOnChooser(
    RestoreFrame& frame, const std::vector<std::string_view>& keys) {
  if (frame.options.args.empty()) {
    return SameOnAllRanks(RestoreChooser::Create(frame.options));
  }
  BELAY_ASSIGN_OR_RETURN_AGREED(
      RestoreChooser chooser,
      AgreeOn(frame.context, RestoreChooser::Create(frame.options)));
  BELAY_RETURN_IF_AGREED(
      CheckEntriesMatch(frame.context, chooser.patterns(), keys));
  return chooser;
}

}  // namespace belay
