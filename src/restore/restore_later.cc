// A restore that is asked for now and done later.
#include <optional>
#include <string>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "belay/save_restore.h"
#include "restore/restore_stages.h"

namespace belay {

StatusOr<RestoreResult> Restore(const Comm& comm, const PendingRestore& pending,
                                const State& state,
                                const RestoreOptions& options) {
  BELAY_RETURN_IF_AGREED(CheckComm(comm, "restore", pending.path_));
  Status status;
  if (pending.identity_ == 0) {
    status = absl::FailedPreconditionError(
        absl::StrFormat("restore \"%s\": nothing is pending: call RestoreLater",
                        pending.path_));
  }
  return RestoreState(comm,
                      {.path = pending.path_,
                       .step = pending.step_,
                       .identity = pending.identity_},
                      status, state, options);
}

StatusOr<PendingRestore> RestoreLater(const Comm& comm, const std::string& dir,
                                      std::optional<int64_t> step,
                                      const RestoreOptions& options) {
  BELAY_RETURN_IF_AGREED(CheckComm(comm, "restore", dir));
  const StatusOr<RestoreSource> source = SourceOf(dir, step);
  const RestoreSource wanted = source.value_or(RestoreSource{.path = dir});
  RestoreFrame frame(comm, wanted.path, options);
  BELAY_RETURN_IF_AGREED(BeginRestore(frame, wanted, source.status()));
  BELAY_ASSIGN_OR_RETURN_AGREED(OpenedStep opened, OpenStep(frame, wanted));
  BELAY_RETURN_IF_AGREED(PinRestore(frame, opened.source));
  PendingRestore pending;
  pending.path_ = opened.source.path;
  pending.step_ = opened.source.step;
  pending.identity_ = opened.source.identity;
  return pending;
}

}  // namespace belay
