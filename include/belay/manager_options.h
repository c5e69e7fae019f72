// Options of a CheckpointManager. Every default works: save whatever is asked
// for, keep everything. Variables of the environment may take the place of some
// (docs/manager.md).

#ifndef BELAY_MANAGER_OPTIONS_H_
#define BELAY_MANAGER_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "belay/newer_steps.h"
#include "belay/options.h"
#include "belay/retention_policy.h"
#include "belay/save_interval.h"
#include "belay/status.h"

namespace belay {

// What a restore has to match to count as one; see LoadStatus. Of a State:
// anything; at least one value; all values of the program; and all that are
// stored.
enum class RestoreMatch : uint8_t {
  kAnything = 0,         // nothing is asked for
  kNontrivial = 1,       // AssertNontrivialMatch
  kExistingObjects = 2,  // AssertExistingObjectsMatched
  kConsumed = 3,         // AssertConsumed
};

struct ManagerOptions {
  // Steps are called <prefix>_<number>.
  std::string prefix = "step";

  // --- When to save ---
  // Save the first step (where there is none yet), those that are a multiple of
  // save_interval_steps, and those of save_on_steps.
  int64_t save_interval_steps = 1;
  std::vector<int64_t> save_on_steps = {};
  // False: not the first step, unless the two above ask for it, and step 0 is
  // no multiple: a program that has just started has nothing to lose.
  bool save_first_step = true;
  // Instead of these: whether to save `step`; `latest` is the newest step,
  // or a later one whose save failed, if there is one. Only the answer of rank
  // 0 counts.
  std::function<bool(int64_t step, std::optional<int64_t> latest)> should_save =
      nullptr;
  // The step of the training, for a program that numbers its checkpoints
  // otherwise. Borrowed; equal on all ranks at each save.
  const int64_t* step_counter = nullptr;
  // Save if step_counter has grown by this since the last save or restore.
  std::optional<int64_t> checkpoint_interval = std::nullopt;
  // Instead of all these: save the first step, and then as often as
  // AdviseInterval says for the saves and the restore of this manager.
  std::optional<AutoInterval> auto_interval = std::nullopt;

  // --- When a save fails ---
  // How many saves in a row may fail on the way to the file system before Save
  // returns an error. Until then it returns OK, with ManagedSave::failure; the
  // steps that are there stay, and a later step is saved in place of the one
  // that was missed (docs/manager.md). At least 0.
  int64_t tolerated_failures = 0;

  // --- When to stop: what ShouldStop tells ---
  // Signals that ask the job to stop, on any rank, such as SIGUSR1 and SIGTERM.
  // While the manager lives they do nothing else.
  std::vector<int> stop_signals = {};
  // Stop in time before the time limit of the job: BELAY_JOB_END_TIME, seconds
  // since 1970, or what squeue says of a Slurm job, which rank 0 asks every
  // time_limit_poll_seconds.
  bool stop_at_time_limit = false;
  double time_limit_poll_seconds = 60;
  // Instead of asking anybody: seconds since 1970. Only rank 0's counts.
  std::optional<double> end_time = std::nullopt;
  // Seconds that are to be left after the last save, for the end of the program
  // and its batch script.
  double final_save_margin = 30;

  // --- Which steps to keep: those that any of these rules keeps ---
  // The newest ones; with best_fn or best_metric the best ones. Unset: all.
  std::optional<int64_t> max_to_keep = std::nullopt;
  // Multiples of this.
  std::optional<int64_t> keep_period = std::nullopt;
  // The first step, and each one so many seconds after the one kept before.
  std::optional<double> keep_time_interval = std::nullopt;
  // Of those that the rules above would delete: one per so many hours.
  std::optional<double> keep_checkpoint_every_n_hours = std::nullopt;
  // How good a step is: a function of its metrics, or the name of one of them.
  MetricFunction best_fn = nullptr;
  std::string best_metric = {};
  std::string best_mode = "max";  // or "min": small is good
  bool keep_checkpoints_without_metrics = true;
  // Instead of all these.
  std::optional<RetentionPolicy> retention = std::nullopt;

  // --- The rest ---
  // Neither saves nor deletes anything, and needs no lease.
  bool read_only = false;
  // Remove at the start what crashed saves and deletions left.
  bool remove_leftovers = true;
  // Every restore of a step has to match so much, or it is an error: a value
  // that was renamed would keep its initial value, and nobody would know. Of a
  // State, RestoreOptions::missing and unexpected may allow or ask for more.
  RestoreMatch restore_match = RestoreMatch::kExistingObjects;
  // What becomes of newer steps when Restore has restored a step by its number.
  NewerSteps newer_steps = NewerSteps::kRefuse;
  // Called by RestoreOrInitialize on all ranks where there is no step.
  std::function<Status()> init_fn = nullptr;
  // Seconds since 1970; unset: the system's clock. Only rank 0's counts.
  std::function<double()> clock = nullptr;
  // Of the run: stored with each step (SaveOptions::metadata).
  Metadata metadata = {};
  SaveOptions save = {};
};

}  // namespace belay

#endif  // BELAY_MANAGER_OPTIONS_H_
