// Stage reserve of a save: the directory, its files with all metadata, space.
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/catch_bad_alloc.h"
#include "base/printable.h"
#include "base/process/nonce.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "format/index_columns.h"
#include "io/files/striping/striping.h"
#include "io/steps/commit.h"
#include "manager/rules/metadata_text.h"
#include "pipeline/shared_directory.h"
#include "save/save_stages.h"

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

// Makes a file of which nothing is known yet. Local.
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

// Makes a file as for the last save of the plan. Local.
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

// Makes the files that this rank is to make. Local.
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
// it in the environment. Local.
StatusOr<int64_t> TimeToStore(const SaveTarget& target) {
  const char* const value = std::getenv(kSourceDate);
  if (value == nullptr || *value == '\0') return target.time;
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
// matters: where nodes share them. Local.
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

StatusOr<ReservedSave> Reserve(const SaveFrame& frame, const ListedSave& listed,
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

}  // namespace belay
