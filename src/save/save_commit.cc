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
namespace {

// Lets handlers finish; all bytes are in place. Rank 0 only.
// Errors: what a handler returned or threw.
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

// What the program has to say before the commit. Rank 0 only.
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

// Rank 0 only.
Status WriteIndexAndCommit(const SaveFrame& frame, const ReservedSave& reserved,
                           const WrittenData& written, ReusablePlan& plan,
                           IndexCreation& index, StepInProgress& step) {
  const SaveTarget& target = frame.target;
  const bool durable = frame.options.durable;
  BELAY_RETURN_IF_ERROR(FinalizeHandlers(target, reserved.finalizers, step));
  BELAY_RETURN_IF_ERROR(index.Create());
  std::vector<uint32_t> checksums;
  if (frame.options.checksums) {
    checksums = FinishChecksums(plan.planned.saved.arrays, written.registers);
  }
  if (!reserved.metadata.empty()) {
    BELAY_RETURN_IF_ERROR(
        WriteMetadataFile(target.Directory(), reserved.metadata, durable));
  }
  BELAY_RETURN_IF_ERROR(FinishIndex(target.IndexPath(), plan.index, target.step,
                                    checksums, durable));
  BELAY_RETURN_IF_ERROR(AskBeforeCommit(frame, step));
  BELAY_ASSIGN_OR_RETURN(step.is_owner, IsOurs(target.path, step.nonce));
  BELAY_RETURN_IF_ERROR(CommitStep(target.path, durable, step.nonce));
  step.committed = true;
  return absl::OkStatus();
}

}  // namespace

Status CommitSave(const SaveFrame& frame, const ReservedSave& reserved,
                  const WrittenData& written, ReusablePlan& plan,
                  IndexCreation& index, StepInProgress& step) {
  frame.stages.Enter("commit");
  return OnRoot(frame.team, [&] {
    return WriteIndexAndCommit(frame, reserved, written, plan, index, step);
  });
}

}  // namespace belay
