// Options of a CheckpointManager. Every default works: it saves every requested
// step and keeps all. Environment variables may override some options
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

// How much a restore must match to succeed: for objects what the function of
// LoadStatus asserts, for a State what follows it.
enum class RestoreMatch : uint8_t {
  kAnything = 0,    // nothing is required
  kNontrivial = 1,  // AssertNontrivialMatch; at least one value
  // AssertExistingObjectsMatched; all values of the program
  kExistingObjects = 2,
  // AssertConsumed; all values of the program, and all that are stored
  kConsumed = 3,
};

// When to save: as auto_interval says if it is set, else checkpoint_interval,
// else should_save, else the three about steps. To set two of these is an
// error.
struct SavePolicy {
  // Save the first step (if there is none yet), multiples of
  // save_interval_steps, and the steps of save_on_steps.
  int64_t save_interval_steps = 1;
  std::vector<int64_t> save_on_steps = {};
  // False: skip the first step unless the two above ask for it, and do not
  // count step 0 as a multiple: a program that has just started has nothing to
  // lose.
  bool save_first_step = true;
  // Used instead of these: whether to save `step`. `latest` is the newest step,
  // or a later one whose save failed, if there is one. Only rank 0's answer
  // counts.
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
  // step is committed; only then does it count, and are others deleted. A
  // forced save, and the last one before the job stops, are complete when Save
  // returns. Call Wait or Close before the program ends. Unset: every save is
  // complete when Save returns.
  std::optional<AsyncOptions> async = std::nullopt;

  // --- When a save fails ---
  // How many saves in a row may fail on the way to the file system before Save
  // returns an error. Until then Save returns OK and sets ManagedSave::failure.
  // Existing steps stay, and a later step is saved in place of the missed one
  // (docs/manager.md). At least 0.
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
  // Used instead of any query: seconds since 1970. Only rank 0's counts. If the
  // system's clock is set during the run, the earlier end of the two is used.
  std::optional<double> end_time = std::nullopt;
  // Seconds to leave after the last save, for the end of the program and its
  // batch script.
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
  // What to do with newer steps when Restore has restored a step by its number.
  NewerSteps newer_steps = NewerSteps::kRefuse;
  // Called by RestoreOrInitialize on all ranks if there is no step.
  std::function<Status()> init_fn = nullptr;
  // Seconds since 1970; unset: the system's clock as it was when the process
  // first asked for it, plus the time since then, whoever sets it meanwhile.
  // Only rank 0's counts.
  std::function<double()> clock = nullptr;
  // Of the whole run: stored with each step (SaveOptions::metadata).
  Metadata metadata = {};
  SaveOptions save = {};
};

}  // namespace belay

#endif  // BELAY_MANAGER_MANAGER_OPTIONS_H_
