// Options of a CheckpointManager. The defaults save every requested step and
// keep all steps. Environment variables may override some options
// (docs/manager.md).

#ifndef BELAY_MANAGER_MANAGER_OPTIONS_H_
#define BELAY_MANAGER_MANAGER_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "belay/manager/newer_steps.h"
#include "belay/manager/retention_policy.h"
#include "belay/manager/save_interval.h"
#include "belay/options.h"
#include "belay/status.h"
#include "belay/values/async_options.h"

namespace belay {

// How much a restore must match to succeed. The comments give, for objects, the
// function of LoadStatus that checks it, then the requirement for a State.
enum class RestoreMatch : uint8_t {
  kAnything = 0,    // nothing is required
  kNontrivial = 1,  // AssertNontrivialMatch; at least one value
  // AssertExistingObjectsMatched; all values of the program
  kExistingObjects = 2,
  // AssertConsumed; all values of the program, and all that are stored
  kConsumed = 3,
};

// When to save. The first of these that is set applies: auto_interval,
// checkpoint_interval, should_save, the three members about steps. Setting two
// of them is an error.
struct SavePolicy {
  // Save the first step (if there is none yet), multiples of
  // save_interval_steps, and the steps of save_on_steps.
  int64_t save_interval_steps = 1;
  std::vector<int64_t> save_on_steps = {};
  // False: skip the first step unless one of the two members above requires it,
  // and do not treat step 0 as a multiple, because a program that has just
  // started has nothing to lose.
  bool save_first_step = true;
  // Used instead of the members above: returns whether to save `step`. `latest`
  // is the newest step, or a later one whose save failed, if there is one. Only
  // rank 0's answer is used.
  std::function<bool(int64_t step, std::optional<int64_t> latest)> should_save =
      nullptr;
  // The training step, for a program that numbers its checkpoints differently.
  // Borrowed; must be equal on all ranks at each save.
  const int64_t* step_counter = nullptr;
  // Save if step_counter has grown by this much since the last save or restore.
  std::optional<int64_t> checkpoint_interval = std::nullopt;
  // Used instead of all these: save the first step, then as often as
  // AdviseInterval recommends for the saves and the restore of this manager.
  std::optional<AutoInterval> auto_interval = std::nullopt;
};

struct ManagerOptions {
  // Step directories are named <prefix>_<number>.
  std::string prefix = "step";

  SavePolicy save_policy = {};

  // --- In the background ---
  // Save returns once the values are copied, and a thread writes them
  // (async_saver.h). A later call of ShouldSave, Save or Wait finds that the
  // step is committed. Only then does the step count for the rules, and older
  // steps are deleted. A forced save, and the last one before the job stops,
  // are complete when Save returns. Call Wait or Close before the program ends.
  // Unset: every save is complete when Save returns.
  std::optional<AsyncOptions> async = std::nullopt;

  // --- When a save fails ---
  // Number of consecutive saves that may fail because of the file system before
  // Save returns an error. Until then, Save returns OK and sets
  // ManagedSave::failure. Existing steps are kept, and a later step is saved
  // instead of the missed one (docs/manager.md). At least 0.
  int64_t tolerated_failures = 0;

  // --- When to stop (ShouldStop) ---
  // Signals that ask the job to stop, on any rank, such as SIGUSR1 and SIGTERM.
  // While the manager exists, the program's earlier handler runs as well, and
  // the default action does not; a third SIGINT ends the process.
  std::vector<int> stop_signals = {};
  // Stop before the time limit of the job: BELAY_JOB_END_TIME, in seconds since
  // 1970, or what squeue reports for a Slurm job. Rank 0 queries squeue every
  // time_limit_poll_seconds.
  bool stop_at_time_limit = false;
  double time_limit_poll_seconds = 60;
  // Used instead of any query: seconds since 1970. Only rank 0's value is used.
  // If the system's clock is changed during the run, the earlier of the two
  // resulting end times is used.
  std::optional<double> end_time = std::nullopt;
  // Seconds to leave after the last save, for the program and its batch script
  // to end.
  double final_save_margin = 30;

  RetentionPolicy retention = {};

  // --- Other ---
  // Save and delete nothing; needs no lease.
  bool read_only = false;
  // Remove leftovers of crashed saves and deletions at the start.
  bool remove_leftovers = true;
  // Every restore of a step must match this much, or it is an error. Otherwise
  // a renamed value would silently keep its initial value. For a State,
  // RestoreOptions::missing and unexpected may relax or tighten this.
  RestoreMatch restore_match = RestoreMatch::kExistingObjects;
  // What to do with newer steps after Restore has restored a step by its
  // number.
  NewerSteps newer_steps = NewerSteps::kRefuse;
  // Called by RestoreOrInitialize on all ranks if there is no step.
  std::function<Status()> init_fn = nullptr;
  // Seconds since 1970; unset: the system's clock when the process first read
  // it, plus the time elapsed since then, so that later changes of the clock
  // have no effect. Only rank 0's is used.
  std::function<double()> clock = nullptr;
  // Metadata of the whole run, stored with each step (SaveOptions::metadata).
  Metadata metadata = {};
  SaveOptions save = {};
};

}  // namespace belay

#endif  // BELAY_MANAGER_MANAGER_OPTIONS_H_
