// Stages reserve and commit of a save: the step's directory and files are
// made, the index is written, the step gets its name; and what is removed
// where that fails.
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "core/agreed.h"
#include "core/catch_exceptions.h"
#include "core/log.h"
#include "core/process.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "format/index_columns.h"
#include "graph/object_graph.h"
#include "pipeline/listing.h"
#include "pipeline/stages.h"
#include "plan/save_args.h"
#include "save/save_stages.h"
#include "storage/commit.h"
#include "storage/index_file.h"
#include "storage/metadata_file.h"
#include "storage/striping.h"
#include "storage/verify.h"

namespace belay {
namespace {

constexpr char kSourceDate[] = "SOURCE_DATE_EPOCH";

NewFile NewFileOf(const SaveFrame& frame, uint64_t nonce,
                  const PlannedFile& file) {
  return {.path = frame.target.DataPath(file),
          .space = file.space,
          .hints = frame.options.mpi_io_hints,
          .once_open = OnceOpen(frame.target, nonce)};
}

// Makes a file of which nothing is known yet.
StatusOr<SkeletonImage> CreateNewFile(const SaveFrame& frame, uint64_t nonce,
                                      const PlannedFile& file) {
  SkeletonImage image;
  BELAY_ASSIGN_OR_RETURN(
      image.skeleton,
      CreateSkeleton(NewFileOf(frame, nonce, file), file.datasets));
  if (frame.options.cache == nullptr) return image;
  return CaptureImage(frame.target.DataPath(file), file.datasets,
                      image.skeleton);
}

// Makes a file as for the last save of the plan.
Status CreateAgain(const NewFile& file,
                   const std::shared_ptr<const SkeletonImage>& image,
                   LaterWrites* later) {
  BELAY_RETURN_IF_ERROR(
      CreateFromImage(file, *image, /*with_bytes=*/later == nullptr));
  if (later == nullptr) return absl::OkStatus();
  LaterWrite& write = later->emplace_back();
  write.path = file.path;
  write.owner = image;
  for (const auto& [offset, bytes] : image->regions) {
    write.regions.push_back({offset, bytes});
  }
  return absl::OkStatus();
}

// Forgets what only the making of the files has needed: there may be very many
// datasets. Collective writes through HDF5 open them by name.
void ForgetDatasets(const SaveFrame& frame, PlannedSave& planned) {
  if (planned.has_filters || frame.options.transfer == Transfer::kHdf5) return;
  for (PlannedFile& file : planned.files) {
    std::exchange(file.datasets, {});  // with its memory
    std::exchange(file.calls, {});
    std::exchange(file.corners, {});
  }
}

// Makes the files that this rank is to make.
Status CreateMyFiles(const SaveFrame& frame, uint64_t nonce, bool reuse,
                     ReusablePlan& plan, LaterWrites* later) {
  size_t next = 0;
  for (const PlannedFile& file : plan.planned.files) {
    if (!file.is_creator) continue;
    if (reuse) {
      BELAY_RETURN_IF_ERROR(CreateAgain(NewFileOf(frame, nonce, file),
                                        plan.skeletons[next++], later));
      continue;
    }
    BELAY_ASSIGN_OR_RETURN(SkeletonImage image,
                           CreateNewFile(frame, nonce, file));
    plan.skeletons.push_back(
        std::make_shared<const SkeletonImage>(std::move(image)));
  }
  if (!reuse) ForgetDatasets(frame, plan.planned);
  return absl::OkStatus();
}

// The time that the index says: whoever wants equal bytes from equal saves sets
// it in the environment.
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

// Returns the nonce as bytes. Rank 0 only.
StatusOr<std::string> BeginOnRoot(const SaveFrame& frame,
                                  ReservedSave& reserved,
                                  StepInProgress& step) {
  const SaveOptions& options = frame.options;
  if (!options.metadata.empty()) {
    BELAY_ASSIGN_OR_RETURN(reserved.metadata, MetadataText(options.metadata));
  }
  BELAY_ASSIGN_OR_RETURN(reserved.time, TimeToStore(frame.target));
  step.nonce = NewNonce();
  const Status status = BeginStep(frame.target.path, options.overwrite,
                                  options.durable, step.nonce);
  step.began = !absl::IsAlreadyExists(status);
  BELAY_RETURN_IF_ERROR(status);
  step.has_directory = true;
  return std::string(reinterpret_cast<const char*>(&step.nonce),
                     sizeof(step.nonce));
}

// Returns how the files that this rank has made are striped, as far as that
// matters: where nodes share them.
std::vector<Striping> StripingsOfMine(const SaveFrame& frame,
                                      const PlannedSave& planned) {
  std::vector<Striping> stripings;
  for (const PlannedFile& file : planned.files) {
    if (!file.is_creator) continue;
    stripings.push_back(frame.options.file_layout == FileLayout::kShared
                            ? StripingOf(frame.target.DataPath(file),
                                         frame.options.mpi_io_hints)
                            : Striping{});
  }
  return stripings;
}

}  // namespace

std::function<Status()> OnceOpen(const SaveTarget& target, uint64_t nonce) {
  return [path = target.path, nonce] { return CheckOurs("save", path, nonce); };
}

Agreed<ReservedSave> Reserve(const SaveFrame& frame, const ListedSave& listed,
                             ReusablePlan& plan, IndexCreation& index,
                             StepInProgress& step, LaterWrites* later) {
  frame.stages.Enter("reserve");
  CommContext& context = frame.context;
  ReservedSave reserved;
  BELAY_ASSIGN_OR_RETURN_AGREED(const std::string nonce, FromRoot(context, [&] {
                                  return BeginOnRoot(frame, reserved, step);
                                }));
  std::memcpy(&step.nonce, nonce.data(), sizeof(step.nonce));
  reserved.nonce = step.nonce;
  const double patience =
      SharedDirectorySeconds(frame.options.deadline_seconds);
  // Rank 0 has made it: where it does not see it, another save has it.
  const StatusOr<bool> sees = WaitForStep(frame.target.path, step.nonce,
                                          context.is_root() ? 0 : patience);
  Status status = sees.status();
  if (context.is_root() && !sees.value_or(true)) {
    status = CheckOurs("save", frame.target.path, step.nonce);
  }
  if (sees.value_or(false)) {
    status = CreateMyFiles(frame, step.nonce, listed.reuse, plan, later);
  }
  if (status.ok() && context.is_root()) {
    StatusOr<std::vector<TypeHandlerPtr>> finalizers =
        FindFinalizers(frame.target, listed, plan.planned.saved.values, step);
    status = finalizers.status();
    if (status.ok()) reserved.finalizers = *std::move(finalizers);
  }
  if (status.ok() && context.is_root()) {
    status = CatchBadAlloc("the index", [&] { return index.Prepare(); });
  }
  BELAY_RETURN_IF_AGREED(AgreeOnSharedDirectory(
      context, status, sees.value_or(true), frame.target.is_managed,
      Cat("save \"", frame.target.Directory(), "\""), patience));
  if (listed.reuse) return reserved;
  plan.plan_id = step.nonce | 1;  // 0 is none
  BELAY_RETURN_IF_AGREED(Place(context, plan.skeletons,
                               StripingsOfMine(frame, plan.planned),
                               plan.planned));
  return reserved;
}

// The index of a save.

namespace {

// The graph as columns, with the dtypes that its values are stored in.
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

// The index says once how an array is laid out: where its object is, if it has
// one.
void LeaveLayoutsToGraph(SavedCheckpoint& saved) {
  const StoredGraph& graph = saved.graph;
  for (size_t i = 0; i < graph.attribute_array.size(); ++i) {
    if (!graph.attribute_layout[i].empty()) {
      saved.arrays[graph.attribute_array[i]].layout.clear();
    }
  }
}

}  // namespace

// How long files with filters are shows when they are written.
bool IndexCreation::IsDue() const {
  return frame_.context.is_root() && !is_created_ && !plan_.planned.has_filters;
}

Status IndexCreation::Prepare() {
  if (reuse_ || draft_) return absl::OkStatus();
  SavedCheckpoint& saved = plan_.planned.saved;
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
  if (reuse_) {
    if (later == nullptr) return WriteNewIndex(path, *plan_.index);
    BELAY_RETURN_IF_ERROR(CreateEmptyIndex(path));
    later->push_back({.path = path,
                      .regions = {{0, plan_.index->bytes}},
                      .owner = plan_.index});
    return absl::OkStatus();
  }
  BELAY_RETURN_IF_ERROR(Prepare());
  plan_.index = std::make_shared<const IndexImage>(
      CompleteIndex(*std::move(draft_), plan_.planned.saved));
  return WriteNewIndex(path, *plan_.index);
}

// Stage commit of a save.

Status FinalizeHandlers(const SaveTarget& target,
                        const std::vector<TypeHandlerPtr>& finalizers,
                        StepInProgress& step) {
  for (const TypeHandlerPtr& handler : finalizers) {
    const Status status =
        CatchExceptions([&] { return handler->Finalize(target.Directory()); });
    if (status.ok()) continue;
    step.program_failed = true;
    return Status(
        status.code(),
        absl::StrFormat("save \"%s\": finalize \"%s\": %s", target.path,
                        handler->typestr(), status.message()));
  }
  return absl::OkStatus();
}

Status AskBeforeCommit(const SaveFrame& frame, StepInProgress& step) {
  if (frame.options.before_commit == nullptr) return absl::OkStatus();
  const Status status = CatchExceptions([&] {
    return frame.options.before_commit(frame.target.Directory(),
                                       frame.target.step);
  });
  if (status.ok()) return status;
  step.program_failed = true;
  return Status(status.code(),
                absl::StrFormat("save \"%s\": before_commit: %s",
                                frame.target.path, status.message()));
}

StepToFinish FinishOf(const SaveFrame& frame, const ReservedSave& reserved,
                      const WrittenData& written, const ReusablePlan& plan) {
  StepToFinish finish{.target = frame.target,
                      .nonce = reserved.nonce,
                      .overwrite = frame.options.overwrite,
                      .durable = frame.options.durable,
                      .time = reserved.time,
                      .metadata = reserved.metadata,
                      .index = plan.index};
  if (frame.options.checksums) {
    finish.checksums =
        FinishChecksums(plan.planned.saved.arrays, written.registers);
  }
  return finish;
}

Status FinishFiles(const StepToFinish& finish) {
  const SaveTarget& target = finish.target;
  if (!finish.metadata.empty()) {
    BELAY_RETURN_IF_ERROR(
        WriteMetadataFile(target.Directory(), finish.metadata, finish.durable));
  }
  return FinishIndex(target.IndexPath(), *finish.index, target.step,
                     finish.time, finish.checksums, finish.durable,
                     OnceOpen(target, finish.nonce));
}

Status NameStep(const StepToFinish& finish, StepInProgress& step) {
  const std::string& path = finish.target.path;
  BELAY_RETURN_IF_ERROR(TakeStep(path, step.nonce));
  step.is_owner = true;
  BELAY_RETURN_IF_ERROR(
      CommitStep(path, finish.overwrite, finish.durable, step.nonce));
  step.committed = true;
  return absl::OkStatus();
}

Agreed<> CommitSave(const SaveFrame& frame, const ReservedSave& reserved,
                    const WrittenData& written, ReusablePlan& plan,
                    IndexCreation& index, StepInProgress& step) {
  frame.stages.Enter("commit");
  return OnRoot(frame.context, [&]() -> Status {
    BELAY_RETURN_IF_ERROR(
        FinalizeHandlers(frame.target, reserved.finalizers, step));
    BELAY_RETURN_IF_ERROR(index.Create());
    const StepToFinish finish = FinishOf(frame, reserved, written, plan);
    BELAY_RETURN_IF_ERROR(FinishFiles(finish));
    BELAY_RETURN_IF_ERROR(AskBeforeCommit(frame, step));
    return NameStep(finish, step);
  });
}

// What follows if a save fails: its reason, and what is removed.

namespace {

// Whether this error tells of another save, or that its directory is gone.
bool TellsOfDirectory(const Status& status) {
  return absl::IsFailedPrecondition(status) || absl::IsNotFound(status);
}

// Why a save failed, if another one has taken its directory over or put files
// into it, or that directory is gone and this is what was noticed. Rank 0 only.
Status FindRival(const SaveTarget& target, const StepInProgress& step,
                 const Status& failure) {
  if (!step.has_directory || step.is_owner) return absl::OkStatus();
  const Status ours = CheckOurs("save", target.path, step.nonce);
  // It was empty at first.
  if (ours.ok() && absl::IsAlreadyExists(failure) && !step.program_failed) {
    return SavedTwice("save", target.path, "has put files into its directory");
  }
  const bool explains = absl::IsFailedPrecondition(ours) ||
                        (absl::IsNotFound(ours) && absl::IsNotFound(failure));
  return explains ? ours : absl::OkStatus();
}

}  // namespace

Agreed<> ReasonOf(const SaveFrame& frame, const StepInProgress& step,
                  const Status& failure) {
  Agreed<> rival = OnRoot(
      frame.context, [&] { return FindRival(frame.target, step, failure); });
  return TellsOfDirectory(rival.status()) ? rival : SameOnAllRanks(failure);
}

void CleanUp(const SaveFrame& frame, const StepInProgress& step,
             const Status& status) {
  const std::string& path = frame.target.path;
  if (!frame.context.is_root()) return;
  // What was there before this save is not ours.
  if (!step.began) return;
  // No rank may believe in a step that another one does not. Under the
  // temporary name lies the old step of a commit that stands.
  if (!status.ok() && step.committed) {
    const Status undone = UndoCommit(path, step.nonce);
    if (!undone.ok()) {
      // The ranks have failed to agree, and have no other error in common.
      Log(LogLevel::kError,
          std::string(AfterUndo(path, status, undone).message()));
      return;
    }
  }
  // Another save of this step may have taken the directory over.
  if (!step.is_owner && !TakeStep(path, step.nonce).ok()) return;
  RemoveDebris(path, step.nonce);
}

}  // namespace belay
