// A step that is chosen now and restored later.
#include <optional>
#include <string>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "belay/save_restore.h"
#include "restore/restore_stages.h"

namespace belay {

StatusOr<RestoreResult> Restore(const Comm& comm, const ChosenStep& chosen,
                                const State& state,
                                const RestoreOptions& options) {
  BELAY_RETURN_IF_AGREED(CheckComm(comm, "restore", chosen.path_));
  Status status;
  if (chosen.identity_ == 0) {
    status = absl::FailedPreconditionError(absl::StrFormat(
        "restore \"%s\": no step was chosen: call ChooseStep", chosen.path_));
  }
  return RestoreState(comm,
                      {.path = chosen.path_,
                       .step = chosen.step_,
                       .identity = chosen.identity_},
                      status, state, options);
}

StatusOr<ChosenStep> ChooseStep(const Comm& comm, const std::string& dir,
                                std::optional<int64_t> step,
                                const RestoreOptions& options) {
  BELAY_RETURN_IF_AGREED(CheckComm(comm, "restore", dir));
  const StatusOr<RestoreSource> source = SourceOf(dir, step);
  const RestoreSource wanted = source.value_or(RestoreSource{.path = dir});
  RestoreFrame frame(comm, wanted.path, options);
  BELAY_RETURN_IF_AGREED(BeginRestore(frame, wanted, source.status()));
  BELAY_ASSIGN_OR_RETURN_AGREED(OpenedStep opened, OpenStep(frame, wanted));
  BELAY_RETURN_IF_AGREED(PinRestore(frame, opened.source));
  ChosenStep chosen;
  chosen.path_ = opened.source.path;
  chosen.step_ = opened.source.step;
  chosen.identity_ = opened.source.identity;
  return chosen;
}

}  // namespace belay
