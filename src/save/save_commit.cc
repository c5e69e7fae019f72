// The reserve and commit stages of a save. They create the step's directory and
// files, write the index, rename the step, and clean up after a failure.
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_format.h"
#include "core/agreed.h"
#include "core/catch_exceptions.h"
#include "core/log.h"
#include "core/process.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "core/wire.h"
#include "format/index_columns.h"
#include "graph/object_graph.h"
#include "pipeline/listing.h"
#include "pipeline/stages.h"
#include "plan/chunks.h"
#include "save/save_stages.h"
#include "storage/commit.h"
#include "storage/file_system.h"
#include "storage/index_file.h"
#include "storage/metadata_file.h"
#include "storage/verify.h"

namespace belay {
namespace {

using Phase = StepInProgress::Phase;

constexpr char kSourceDate[] = "SOURCE_DATE_EPOCH";

// Creates a file from the skeleton of a reused plan. With `later`, its metadata
// is added there, not written.
Status CreateFromCache(const NewFile& file,
                       const std::shared_ptr<const Skeleton>& skeleton,
                       LaterWrites* later) {
  BELAY_RETURN_IF_ERROR(
      CreateAgain(file, *skeleton, /*with_regions=*/later == nullptr));
  if (later == nullptr) return absl::OkStatus();
  LaterWrite& write = later->emplace_back();
  write.path = file.path;
  write.owner = skeleton;
  for (const auto& [offset, bytes] : skeleton->regions) {
    write.regions.push_back({offset, bytes});
  }
  return absl::OkStatus();
}

// Frees the descriptions of datasets, of which there may be very many. Once the
// files exist, only collective writes with HDF5 need them.
void ForgetDatasets(const SaveFrame& frame, RankPlan& plan) {
  if (plan.has_filters || frame.options.transfer == Transfer::kHdf5) return;
  for (PlannedFile& file : plan.files) {
    std::exchange(file.datasets, {});
    std::exchange(file.calls, {});
    std::exchange(file.corners, {});
  }
}

// Creates this rank's files.
Status CreateMyFiles(const SaveFrame& frame, const StepInProgress& step,
                     PreparedSave& save, LaterWrites* later) {
  RankPlan& plan = save.plan;
  size_t next = 0;
  for (const PlannedFile& planned : plan.files) {
    if (!planned.is_creator) continue;
    const NewFile file{.path = frame.target.DataPath(planned),
                       .space = planned.space,
                       .hints = frame.options.mpi_io_hints,
                       .once_open = OnceOpen(step)};
    if (save.reuse) {
      BELAY_RETURN_IF_ERROR(
          CreateFromCache(file, plan.skeletons[next++], later));
      continue;
    }
    BELAY_ASSIGN_OR_RETURN(
        Skeleton skeleton,
        CreateSkeleton(file, planned.datasets,
                       /*keeps_regions=*/frame.options.cache != nullptr));
    plan.skeletons.push_back(
        std::make_shared<const Skeleton>(std::move(skeleton)));
  }
  if (!save.reuse) ForgetDatasets(frame, plan);
  return absl::OkStatus();
}

// Returns the time to store in the index. An environment variable can set it,
// to make equal saves have equal bytes.
StatusOr<int64_t> TimeToStore(const SaveTarget& target) {
  const char* const value = std::getenv(kSourceDate);
  if (value == nullptr || *value == '\0') {
    return std::clamp<int64_t>(target.time, 0, kMaxTime);  // a clock may be off
  }
  const std::string_view text(value);
  const char* const last = text.data() + text.size();
  int64_t time = 0;
  const auto [end, error] = std::from_chars(text.data(), last, time);
  if (error == std::errc() && end == last && 0 <= time && time <= kMaxTime) {
    return time;
  }
  return absl::InvalidArgumentError(Cat(
      "save \"", target.path, "\": ", kSourceDate,
      ": not a time (need seconds since 1970, found ", QuotedText(text), ")"));
}

// Creates the directory in progress. Rank 0 only.
Status BeginOnRoot(const SaveFrame& frame, StepInProgress& step) {
  if (!frame.options.metadata.empty()) {
    BELAY_ASSIGN_OR_RETURN(step.metadata, MetadataText(frame.options.metadata));
  }
  BELAY_ASSIGN_OR_RETURN(step.time, TimeToStore(frame.target));
  step.nonce = NewNonce();
  const Status status =
      BeginStep(step.target.path, step.overwrite, step.durable, step.nonce);
  if (!absl::IsAlreadyExists(status)) step.phase = Phase::kBegun;
  BELAY_RETURN_IF_ERROR(status);
  step.phase = Phase::kReserved;
  return absl::OkStatus();
}

// Returns the striping of the files that this rank has created. Striping
// matters only if nodes share a file.
std::vector<Striping> FindStripings(const SaveFrame& frame,
                                    const RankPlan& plan) {
  std::vector<Striping> stripings;
  for (const PlannedFile& file : plan.files) {
    if (!file.is_creator) continue;
    stripings.push_back(frame.options.file_layout == FileLayout::kShared
                            ? FindStriping(frame.target.DataPath(file),
                                           frame.options.mpi_io_hints)
                            : Striping{});
  }
  return stripings;
}

}  // namespace

std::function<Status()> OnceOpen(const StepInProgress& step) {
  return [path = step.target.path, nonce = step.nonce] {
    return CheckOurs("save", path, nonce);
  };
}

Agreed<> Reserve(SaveFrame& frame, PreparedSave& save, IndexCreation& index,
                 StepInProgress& step, LaterWrites* later) {
  frame.stages.Enter("reserve");
  CommContext& context = frame.context;
  const std::string& path = frame.target.path;
  BELAY_ASSIGN_OR_RETURN_AGREED(
      const std::string nonce,
      FromRoot(context, [&]() -> StatusOr<std::string> {
        BELAY_RETURN_IF_ERROR(BeginOnRoot(frame, step));
        return Encode(step.nonce);
      }));
  step.nonce = WireReader(nonce).Get<uint64_t>();
  const double patience =
      SharedDirectorySeconds(frame.options.deadline_seconds);
  // Rank 0 has made the directory. If it cannot see the directory, another save
  // has taken it.
  const StatusOr<bool> sees =
      WaitForStep(path, step.nonce, context.is_root() ? 0 : patience);
  Status status = sees.status();
  if (context.is_root() && !sees.value_or(true)) {
    status = CheckOurs("save", path, step.nonce);
  }
  if (sees.value_or(false)) status = CreateMyFiles(frame, step, save, later);
  if (status.ok() && context.is_root()) status = FindFinalizers(save, step);
  if (status.ok() && context.is_root()) {
    status = CatchBadAlloc("the index", [&] { return index.Prepare(); });
  }
  BELAY_RETURN_IF_AGREED(AgreeOnSharedDirectory(
      context, status, sees.value_or(true), frame.target.is_managed,
      Cat("save \"", frame.target.Directory(), "\""), patience));
  if (save.reuse) return {};
  save.plan.plan_id = step.nonce | 1;  // 0 is none
  return Place(context, FindStripings(frame, save.plan), save.plan);
}

// The index of a save.

namespace {

// Returns the graph in its stored form, with the stored dtypes of its values.
StatusOr<StoredGraph> GraphToStore(const ObjectGraph& live,
                                   const SaveOptions& options,
                                   SavedCheckpoint& saved) {
  if (StoresAllAsTheyAre(options)) {
    return ToStoredGraph(live, saved.arrays, saved.values);
  }
  BELAY_ASSIGN_OR_RETURN(const ArgsByKey args, CompileArgs(options.args));
  ObjectGraph graph = live;
  for (GraphNode& node : graph.nodes) {
    for (GraphAttribute& attribute : node.attributes) {
      if (attribute.has_handler()) continue;
      BELAY_ASSIGN_OR_RETURN(
          attribute.dtype,
          StoredDType(args, options, attribute.key, attribute.dtype));
    }
  }
  return ToStoredGraph(graph, saved.arrays, saved.values);
}

// Removes the layouts of arrays that belong to an object: the graph has them.
void LeaveLayoutsToGraph(SavedCheckpoint& saved) {
  const StoredGraph& graph = saved.graph;
  for (size_t i = 0; i < graph.attribute_array.size(); ++i) {
    if (!graph.attribute_layout[i].empty()) {
      saved.arrays[graph.attribute_array[i]].layout.clear();
    }
  }
}

}  // namespace

// With filters, the lengths of files are known only after writing.
bool IndexCreation::IsDue() const {
  return frame_.context.is_root() && !is_created_ && !save_.plan.has_filters;
}

Status IndexCreation::Prepare() {
  if (save_.reuse || draft_) return absl::OkStatus();
  SavedCheckpoint& saved = save_.plan.saved;
  saved.has_checksums = frame_.options.checksums;
  if (graph_ != nullptr) {
    BELAY_ASSIGN_OR_RETURN(saved.graph,
                           GraphToStore(*graph_, frame_.options, saved));
    LeaveLayoutsToGraph(saved);
  }
  BELAY_ASSIGN_OR_RETURN(draft_, DraftIndex(frame_.target.IndexPath(), saved));
  return absl::OkStatus();
}

Status IndexCreation::Create(LaterWrites* later) {
  if (is_created_) return absl::OkStatus();
  is_created_ = true;
  const std::string path = frame_.target.IndexPath();
  RankPlan& plan = save_.plan;
  if (save_.reuse) {
    if (later == nullptr)
      return WriteWhole(path, plan.index->bytes, /*durable=*/false);
    BELAY_RETURN_IF_ERROR(WriteWhole(path, "", /*durable=*/false));
    later->push_back({.path = path,
                      .regions = {{0, plan.index->bytes}},
                      .owner = plan.index});
    return absl::OkStatus();
  }
  BELAY_RETURN_IF_ERROR(Prepare());
  CompleteIndex(plan.saved, *draft_);
  plan.index = std::make_shared<const IndexImage>(*std::move(draft_));
  return WriteWhole(path, plan.index->bytes, /*durable=*/false);
}

// The commit stage of a save.

namespace {

// Calls a function of the program. If it fails, names `who` in the error.
Status CallProgram(StepInProgress& step, const std::string& who,
                   absl::FunctionRef<Status()> call) {
  const Status status = CatchExceptions(call);
  if (status.ok()) return status;
  step.program_failed = true;
  return Status(status.code(),
                absl::StrFormat("save \"%s\": %s: %s", step.target.path, who,
                                status.message()));
}

}  // namespace

void CompleteStep(const SaveOptions& options, const RankPlan& plan,
                  const WrittenData& written, StepInProgress& step) {
  step.index = plan.index;
  if (!options.checksums) return;
  step.checksums = FinishChecksums(plan.saved.arrays, written.registers);
}

Status CallFinalizers(StepInProgress& step) {
  const std::string directory = step.target.Directory();
  for (const TypeHandlerPtr& handler : step.finalizers) {
    BELAY_RETURN_IF_ERROR(
        CallProgram(step, Cat("finalize \"", handler->typestr(), "\""),
                    [&] { return handler->Finalize(directory); }));
  }
  return absl::OkStatus();
}

Status CommitInPlace(StepInProgress& step) {
  const std::string& path = step.target.path;
  const std::string directory = step.target.Directory();
  if (!step.metadata.empty()) {
    BELAY_RETURN_IF_ERROR(WriteWhole(JoinPath(directory, MetadataName()),
                                     step.metadata, step.durable));
  }
  BELAY_RETURN_IF_ERROR(FinishIndex(step.target.IndexPath(), *step.index,
                                    step.target.step, step.time, step.checksums,
                                    step.durable, OnceOpen(step)));
  if (step.before_commit != nullptr) {
    BELAY_RETURN_IF_ERROR(CallProgram(step, "before_commit", [&] {
      return step.before_commit(directory, step.target.step);
    }));
  }
  BELAY_RETURN_IF_ERROR(TakeStep(path, step.nonce));
  step.phase = Phase::kOwned;
  BELAY_RETURN_IF_ERROR(
      CommitStep(path, step.overwrite, step.durable, step.nonce));
  step.phase = Phase::kCommitted;
  return absl::OkStatus();
}

Agreed<> CommitSave(SaveFrame& frame, const PreparedSave& save,
                    const WrittenData& written, IndexCreation& index,
                    StepInProgress& step) {
  frame.stages.Enter("commit");
  return OnRoot(frame.context, [&]() -> Status {
    BELAY_RETURN_IF_ERROR(CallFinalizers(step));
    BELAY_RETURN_IF_ERROR(index.Create());
    CompleteStep(frame.options, save.plan, written, step);
    return CommitInPlace(step);
  });
}

// The end of a step.

namespace {

// Finds out whether a save failed because another save has taken over its
// directory or put files into it, or because the directory is gone. Rank 0
// only.
Status FindRival(const StepInProgress& step, const Status& failure) {
  if (step.phase != Phase::kReserved) return absl::OkStatus();
  const std::string& path = step.target.path;
  const Status ours = CheckOurs("save", path, step.nonce);
  // The directory was empty at first.
  if (ours.ok() && absl::IsAlreadyExists(failure) && !step.program_failed) {
    return SavedTwice("save", path, "has put files into its directory");
  }
  const bool explains = absl::IsFailedPrecondition(ours) ||
                        (absl::IsNotFound(ours) && absl::IsNotFound(failure));
  return explains ? ours : absl::OkStatus();
}

// Removes what is left of a step that ended with `status`. Rank 0 only.
void CleanUp(const StepInProgress& step, const Status& status) {
  const std::string& path = step.target.path;
  if (step.phase == Phase::kNone) return;
  // Either all ranks take the step as committed or none does. The step that the
  // commit has replaced is under the temporary name.
  if (!status.ok() && step.phase == Phase::kCommitted) {
    const Status undone = UndoCommit(path, step.nonce);
    if (!undone.ok()) {
      // The ranks have failed to agree, so they share no other error.
      Log(LogLevel::kError,
          std::string(AfterUndo(path, status, undone).message()));
      return;
    }
  }
  // Another save of this step may have taken over the directory.
  if (step.phase < Phase::kOwned && !TakeStep(path, step.nonce).ok()) return;
  RemoveDebris(path, step.nonce);
}

}  // namespace

Agreed<> EndStep(SaveFrame& frame, const StepInProgress& step, Agreed<> ended,
                 bool* at_files) {
  if (!ended.ok()) {
    Agreed<> rival =
        OnRoot(frame.context, [&] { return FindRival(step, ended.status()); });
    // Other errors only mean that the ranks could not communicate.
    if (absl::IsFailedPrecondition(rival.status()) ||
        absl::IsNotFound(rival.status())) {
      ended = std::move(rival);
    }
  }
  if (at_files != nullptr) *at_files = !step.program_failed;
  if (frame.context.is_root()) CleanUp(step, ended.status());
  return ended;
}

}  // namespace belay
