// Stage verify of a save: sizes, holes, and on request every byte.
#include <cstdint>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "base/text.h"
#include "io/index/verify.h"
#include "pipeline/listing.h"
#include "pipeline/lost_values.h"
#include "save/data_file_job.h"
#include "save/save_stages.h"

namespace belay {
namespace {

// Looks for holes and wrong sizes in the files that this rank has created.
// Returns their sizes. Local.
StatusOr<std::vector<int64_t>> CheckMyFiles(const SaveTarget& target,
                                            const ReusablePlan& plan,
                                            bool& has_holes) {
  std::vector<int64_t> sizes;
  for (const PlannedFile& file : plan.planned.files) {
    if (!file.is_creator) continue;
    int64_t bytes = plan.skeletons[sizes.size()]->skeleton.file_bytes;
    if (file.HasFilters()) {
      BELAY_ASSIGN_OR_RETURN(bytes, FileBytes(target.DataPath(file)));
    }
    bool holes = false;
    BELAY_RETURN_IF_ERROR(
        CheckWrittenFile(target.DataPath(file), bytes, holes));
    has_holes = has_holes || holes;
    sizes.push_back(bytes);
  }
  return sizes;
}

// Local.
Status ReadBackMine(const SaveFrame& frame, const std::vector<Shard>& shards,
                    const ReusablePlan& plan) {
  for (const PlannedFile& file : plan.planned.files) {
    BELAY_RETURN_IF_ERROR(
        ReadBack(DataFileJob(frame, shards, plan, file, DatasetPart::kPlain)));
    BELAY_RETURN_IF_ERROR(ReadBackFiltered(
        DataFileJob(frame, shards, plan, file, DatasetPart::kFiltered)));
  }
  return absl::OkStatus();
}

// Reads back what has passed filters of which nothing is known. Local.
Status ReadBackUnsure(const SaveFrame& frame, const std::vector<Shard>& shards,
                      const ReusablePlan& plan) {
  for (const PlannedFile& file : plan.planned.files) {
    if (file.IsLossless()) continue;
    BELAY_RETURN_IF_ERROR(ReadBackFiltered(
        DataFileJob(frame, shards, plan, file, DatasetPart::kFiltered)));
  }
  return absl::OkStatus();
}

// What any rank has found, the same on all.
struct Found {
  bool holes = false;
  bool lost_values = false;
};

// Whether any file has holes, and what ranks know without looking at files;
// `sizes` become those of the files of this rank. A file system may show only
// what is synced as allocated: where there seem to be holes, all look again
// once all have synced. Agrees on `mine`. Collective; agreed.
StatusOr<Found> LookTogether(const SaveFrame& frame, const ReusablePlan& plan,
                             const Status& mine, bool has_lost,
                             std::vector<int64_t>& sizes) {
  Status status = mine;
  std::vector<int64_t> flags = {0};
  for (int look = 0; look < 2 && flags[0] == 0; ++look) {
    bool has_holes = false;
    StatusOr<std::vector<int64_t>> found =
        CheckMyFiles(frame.target, plan, has_holes);
    status.Update(found.status());
    flags = {has_holes ? 0 : 1};
    if (!StoresAllAsTheyAre(frame.options)) flags.push_back(has_lost ? 0 : 1);
    BELAY_RETURN_IF_AGREED(MinAll(frame.context, flags, status));
    sizes = *std::move(found);
  }
  return Found{.holes = flags[0] == 0,
               .lost_values = flags.back() == 0 && flags.size() > 1};
}

}  // namespace

Status TellLostValues(const SaveFrame& frame, const std::vector<Shard>& shards,
                      const ReusablePlan& plan, bool any, StepInProgress& step,
                      WrittenData& written) {
  if (!any) return absl::OkStatus();
  const std::vector<LostValues> mine =
      ListLost({shards, plan.forms, written.losses}, ConversionWay::kToStored);
  StatusOr<std::vector<std::string>> warnings =
      TellLost(frame.context, Cat("save \"", frame.target.path, "\""), mine,
               frame.options.strict_dtype);
  // A manager may take a fault of the file system, not this.
  step.program_failed = absl::IsFailedPrecondition(warnings.status());
  BELAY_RETURN_IF_AGREED(warnings.status());
  written.warnings = *std::move(warnings);
  return absl::OkStatus();
}

Status VerifyData(const SaveFrame& frame, const std::vector<Shard>& shards,
                  ReusablePlan& plan, StepInProgress& step,
                  WrittenData& written) {
  frame.stages.Enter("verify");
  std::vector<int64_t> sizes;
  BELAY_ASSIGN_OR_RETURN_AGREED(const Found found,
                                LookTogether(frame, plan, written.status,
                                             AnyLost(written.losses), sizes));
  BELAY_RETURN_IF_AGREED(
      TellLostValues(frame, shards, plan, found.lost_values, step, written));
  if (plan.planned.has_filters) {
    BELAY_RETURN_IF_AGREED(GatherFileSizes(frame.context, sizes, plan.planned));
  }
  // Fewer bytes allocated than written is a loss, or a file system that
  // compresses: reading back tells.
  if (frame.options.read_back || found.holes) {
    BELAY_RETURN_IF_AGREED(
        Agree(frame.context, ReadBackMine(frame, shards, plan)));
  } else if (plan.planned.has_filters) {
    BELAY_RETURN_IF_AGREED(
        Agree(frame.context, ReadBackUnsure(frame, shards, plan)));
  }
  if (written.registers.empty()) return absl::OkStatus();
  return XorToRoot(frame.context, written.registers);
}

}  // namespace belay
