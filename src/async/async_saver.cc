#include "belay/async_saver.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "async/background_save.h"
#include "async/left_saves.h"
#include "base/status_macros.h"

namespace belay {
namespace {

Status CheckMoved(const BackgroundSaver* saver) {
  if (saver != nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "save \"AsyncSaver\": it was moved from");
}

}  // namespace

AsyncSaver::AsyncSaver(const Comm& comm, const AsyncOptions& options)
    : saver_(std::make_unique<BackgroundSaver>(comm, options)) {}

AsyncSaver::AsyncSaver(AsyncSaver&&) noexcept = default;
AsyncSaver& AsyncSaver::operator=(AsyncSaver&& other) noexcept {
  LetGo(std::exchange(saver_, std::move(other.saver_)));
  return *this;
}
AsyncSaver::~AsyncSaver() { LetGo(std::move(saver_)); }

StatusOr<PendingSave> AsyncSaver::Save(const std::string& dir, int64_t step,
                                       const State& state,
                                       const SaveOptions& options) {
  BELAY_RETURN_IF_AGREED(CheckMoved(saver_.get()));
  BELAY_ASSIGN_OR_RETURN_AGREED(std::optional<SaveResult> finished,
                                saver_->WaitBeforeNext());
  StatusOr<PendingSave> pending =
      saver_->Begin({.path = dir.empty() ? "" : StepPath(dir, step),
                     .step = step,
                     .state = state},
                    options, nullptr);
  if (pending.ok()) {
    pending->finished = std::move(finished);
  } else {
    saver_->Keep(std::move(finished));
  }
  return pending;
}

Status AsyncSaver::WaitForSnapshot() {
  BELAY_RETURN_IF_AGREED(CheckMoved(saver_.get()));
  return saver_->WaitForSnapshot();
}

StatusOr<std::optional<SaveResult>> AsyncSaver::Poll() {
  BELAY_RETURN_IF_AGREED(CheckMoved(saver_.get()));
  return saver_->Poll();
}

StatusOr<std::optional<SaveResult>> AsyncSaver::Wait() {
  BELAY_RETURN_IF_AGREED(CheckMoved(saver_.get()));
  return saver_->Wait();
}

Status AsyncSaver::Close() {
  const Status status = Wait().status();
  if (saver_ != nullptr) saver_->FreeMemory();
  return status;
}

bool AsyncSaver::is_pending() const {
  return saver_ != nullptr && saver_->is_pending();
}

}  // namespace belay
