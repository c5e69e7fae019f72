#include "belay/run.h"

#include <utility>

#include "core/log.h"

namespace belay {

// The later ones borrow the earlier ones.
struct Run::Parts {
  Comm comm;
  State state;
  std::optional<CheckpointManager> manager;
};

Run::Run(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Run::Run(Run&&) noexcept = default;
Run& Run::operator=(Run&&) noexcept = default;
Run::~Run() = default;

StatusOr<Run> Run::Open(MPI_Comm comm, const std::string& dir,
                        const ManagerOptions& options) {
  LogInfoByDefault();
  StatusOr<Comm> own = Comm::Duplicate(comm, options.save.deadline_seconds);
  if (!own.ok()) return own.status();
  auto parts = std::make_unique<Parts>();
  parts->comm = *std::move(own);
  StatusOr<CheckpointManager> manager =
      CheckpointManager::Create(parts->comm, parts->state, dir, options);
  if (!manager.ok()) {  // on all ranks alike
    parts->comm.Close().IgnoreError();
    return manager.status();
  }
  parts->manager.emplace(*std::move(manager));
  return Run(std::move(parts));
}

State& Run::state() { return parts_->state; }
const Comm& Run::comm() const { return parts_->comm; }
CheckpointManager& Run::manager() { return *parts_->manager; }

StatusOr<ManagedRestore> Run::Restore(const RestoreOptions& options) {
  return parts_->manager->RestoreLatest(options);
}

StatusOr<ManagedSave> Run::Step(int64_t step,
                                const ManagedSaveOptions& options) {
  if (!options.force) {
    // It also spreads signals and the time to all ranks.
    const StatusOr<bool> is_due = parts_->manager->ShouldSave(step);
    if (!is_due.ok()) return is_due.status();
    if (!*is_due) return ManagedSave{.reason = "no save is due"};
  }
  return parts_->manager->Save(step, options);
}

std::optional<StopReason> Run::ShouldStop() const {
  return parts_->manager->ShouldStop();
}

Status Run::Close() {
  Status status = parts_->manager->Close();
  status.Update(parts_->comm.Close());
  return status;
}

}  // namespace belay
