// A run in one object: the communicator, the values, the directory and its
// manager, for programs that save in their steps and go on after a restart.
//
//   belay::Run run = belay::Check(belay::Run::Open(
//       MPI_COMM_WORLD, "run", {.save_policy = {.save_interval_steps = 10}}));
//   run.state().Add("time", time);
//   run.state().AddPiece("u", {rows, columns}, owned, u);
//   if (!belay::Check(run.Restore()).step) Start();
//   while (step < steps && !run.ShouldStop()) {
//     Advance();
//     belay::Check(run.Step(++step));
//   }
//   belay::Check(run.Close());
//
// Rank 0 prints what it saves and restores to stderr, unless BELAY_LOG or
// SetLogSink says otherwise (belay/log.h).

#ifndef BELAY_RUN_H_
#define BELAY_RUN_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "belay/checkpoint_manager.h"
#include "belay/comm.h"
#include "belay/manager/manager_options.h"
#include "belay/manager/stop_reason.h"
#include "belay/options.h"
#include "belay/state.h"
#include "belay/status.h"

namespace belay {

// Move only. One that was moved from can only be assigned to and destroyed.
//
// Errors of all functions: FailedPrecondition - the run is closed.
class Run {
 public:
  // Duplicates the communicator and opens the run in `dir`. Collective. `dir`
  // and `options` must be equal on all ranks.
  // Errors: those of Comm::Duplicate and CheckpointManager::Create.
  static StatusOr<Run> Open(MPI_Comm comm, const std::string& dir,
                            const ManagerOptions& options = {});

  Run(Run&&) noexcept;
  Run& operator=(Run&&) noexcept;
  // As that of CheckpointManager. Never communicates, so the communicator is
  // freed only by Close.
  ~Run();

  // The values of the program, which it adds before Restore. Local. The
  // reference stays valid when the Run is moved.
  State& state();

  // What the run consists of, for all that this class does not do. Local.
  const Comm& comm() const;
  CheckpointManager& manager();

  // Restores the newest step that can be restored, if there is one. Collective.
  // `options` must be equal on all ranks.
  // Errors: those of CheckpointManager::RestoreLatest.
  StatusOr<ManagedRestore> Restore(const RestoreOptions& options = {});

  // Saves the step if the rules ask for it or the job must stop, as
  // CheckpointManager::ShouldSave decides, or if options.force is set.
  // Collective. Call it at the end of each step. `step` and options.force must
  // be equal on all ranks.
  // Errors: those of CheckpointManager::Save; for a step that is not saved,
  //   those of CheckpointManager::ShouldSave, in the next call.
  StatusOr<ManagedSave> Step(int64_t step,
                             const ManagedSaveOptions& options = {});

  // As that of CheckpointManager: end the loop, then the program with
  // kStoppedExitCode. Local.
  std::optional<StopReason> ShouldStop() const;

  // Waits for a save in the background, and releases everything, also after an
  // error. Collective. Does nothing if it was called before.
  // Errors: those of CheckpointManager::Close and Comm::Close.
  Status Close();

 private:
  struct Parts;
  explicit Run(std::unique_ptr<Parts> parts);

  std::unique_ptr<Parts> parts_;
};

}  // namespace belay

#endif  // BELAY_RUN_H_
