#include "async/commit_work.h"

#include "base/status_macros.h"
#include "format/paths.h"
#include "io/index/verify.h"

namespace belay {
namespace {

Status CheckFiles(CommitWork& work) {
  work.has_holes = false;
  for (const StoredFile& file : work.files) {
    bool has_holes = false;
    BELAY_RETURN_IF_ERROR(
        CheckWrittenFile(JoinPath(work.finish.target.Directory(), file.name),
                         file.bytes, has_holes));
    work.has_holes |= has_holes && !work.is_read_back;
  }
  return absl::OkStatus();
}

}  // namespace

Status CommitWithoutProgram(CommitWork& work) {
  BELAY_RETURN_IF_ERROR(CheckFiles(work));
  if (work.has_holes) return absl::OkStatus();
  BELAY_RETURN_IF_ERROR(FinishFiles(work.finish));
  return NameStep(work.finish, work.step);
}

Status CommitWithProgram(const SaveFrame& frame,
                         const std::vector<TypeHandlerPtr>& finalizers,
                         CommitWork& work) {
  BELAY_RETURN_IF_ERROR(CheckFiles(work));
  if (work.has_holes) return absl::OkStatus();
  BELAY_RETURN_IF_ERROR(
      FinalizeHandlers(work.finish.target, finalizers, work.step));
  BELAY_RETURN_IF_ERROR(FinishFiles(work.finish));
  BELAY_RETURN_IF_ERROR(AskBeforeCommit(frame, work.step));
  return NameStep(work.finish, work.step);
}

}  // namespace belay
