// Stage commit of a save.
#include <cstdint>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/catch_exceptions.h"
#include "base/status_macros.h"
#include "io/index/index_file.h"
#include "io/index/verify.h"
#include "io/steps/commit.h"
#include "io/steps/metadata_file.h"
#include "save/save_stages.h"

namespace belay {

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

Status CommitSave(const SaveFrame& frame, const ReservedSave& reserved,
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

}  // namespace belay
