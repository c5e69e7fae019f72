// Save and Restore: the whole library in two functions.
//
//   auto comm = belay::Comm::Duplicate(MPI_COMM_WORLD);
//   belay::State state;
//   state.AddPiece("weights", {rows, 8}, my_box, my_rows);
//   auto restored = belay::RestoreLatest(*comm, "run", state);
//   auto saved = belay::Save(*comm, "run", step, state);
//
// A checkpoint is the directory <dir>/step_<number>. One atomic rename makes it
// appear once every byte is on disk. Nothing in it changes afterwards.

#ifndef BELAY_SAVE_RESTORE_H_
#define BELAY_SAVE_RESTORE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "belay/comm.h"
#include "belay/options.h"
#include "belay/state.h"
#include "belay/status.h"

namespace belay {

// Pass this instead of a step number to select the committed step with the
// largest number. It is not an integer; a negative step number is an error.
inline constexpr std::nullopt_t kLatestStep = std::nullopt;

struct CachedPlan;

// Holds the plan, the file offsets and the metadata bytes of the last save. The
// next save skips planning and all HDF5 calls if the structure of the state
// (keys, dtypes, shapes, boxes, lengths of strings), the options and the ranks
// are the same. If the structure has changed, ranks send only what differs. A
// State that has not changed since the last save is not listed again.
// Memory: about 200 bytes per shard, plus about 600 per shard of a State that
// need not be listed again; on ranks that create files, also the files'
// metadata; on rank 0, also the lists of all ranks, with equal lists stored
// once. Move only.
class PlanCache {
 public:
  PlanCache();
  ~PlanCache();
  PlanCache(PlanCache&&) noexcept;
  PlanCache& operator=(PlanCache&&) noexcept;

 private:
  friend CachedPlan& PlanOf(PlanCache& cache);

  std::unique_ptr<CachedPlan> plan_;
};

// Writes `state` as the step <dir>/step_<step>. Collective. `dir`, `step` and
// `options` (except `cache` and `deadline_seconds`) must be equal on all ranks,
// and so must the dtype and shape of each key. Creates `dir` if its parent
// exists. On an error nothing is committed, earlier steps are untouched, and
// the call may be repeated. There is one exception: if the commit fails and the
// file system then refuses to undo it, the step is committed. The message says
// so or, if the ranks could not exchange it, the log of rank 0 does.
// Errors: InvalidArgument - ranks disagree, shards overlap or leave a gap, a
//   negative step, a value out of its range, `dir` is a step; OutOfRange - a
//   box exceeds its shape; AlreadyExists - the step is committed and overwrite
//   is off; NotFound - the parent of `dir` is missing; FailedPrecondition -
//   ranks do not see the same directory; ResourceExhausted - no space; and
//   PermissionDenied, DataLoss, Internal as in status.h.
// Cost: 26 to 38 small collectives, whatever the number of arrays, or 11 to 19
// if options.cache has the plan; up to 8 more for each file after the first
// that several ranks write (docs/collective.md).
StatusOr<SaveResult> Save(const Comm& comm, const std::string& dir,
                          int64_t step, const State& state,
                          const SaveOptions& options = {});

// Reads the values of `state` from a committed step. Collective.
// `dir` is a directory of steps. With kLatestStep it may also be the directory
// of one step under any name: "run/step_00000042", or a copy of it, "best".
// `dir`, `step` and `options` must be equal on all ranks. Each rank lists what
// it needs: any boxes, on any number of ranks. Stored keys that no rank lists
// are ignored. After an error the values are unspecified.
// Errors: NotFound - no such step, or a key is not stored; FailedPrecondition -
//   a dtype or shape differs, and `options` do not allow it; DataLoss - a
//   damaged index or data file, or a directory that holds a copy of another
//   step; Unimplemented - a newer major version; InvalidArgument - ranks
//   disagree, a negative step.
StatusOr<RestoreResult> Restore(const Comm& comm, const std::string& dir,
                                std::optional<int64_t> step, const State& state,
                                const RestoreOptions& options = {});

// Restores the newest committed step, as Restore does with kLatestStep.
// Collective. Returns nothing and leaves the values unchanged if `dir` does not
// exist or holds no committed step. Only rank 0 looks at the directory. `dir`
// and `options` must be equal on all ranks.
// Errors: those of Restore, including the case that a step exists but cannot be
//   restored, or that the directory cannot be read.
StatusOr<std::optional<RestoreResult>> RestoreLatest(
    const Comm& comm, const std::string& dir, const State& state,
    const RestoreOptions& options = {});

// A step that was chosen for restoring values that may not exist yet. A plain
// value, equal on all ranks. A CheckpointReader of `path` shows what the step
// holds.
class ChosenStep {
 public:
  // No step. Local.
  ChosenStep() = default;

  // The directory of the step and its number. Local.
  const std::string& path() const { return path_; }
  int64_t step() const { return step_; }

 private:
  friend StatusOr<ChosenStep> ChooseStep(const Comm& comm,
                                         const std::string& dir,
                                         std::optional<int64_t> step,
                                         const RestoreOptions& options);
  friend StatusOr<RestoreResult> Restore(const Comm& comm,
                                         const ChosenStep& chosen,
                                         const State& state,
                                         const RestoreOptions& options);

  std::string path_;
  int64_t step_ = 0;
  uint64_t identity_ = 0;  // distinguishes it from a step saved in its place
};

// Chooses a step, with `dir` and `step` as for Restore, and checks that its
// index is readable and its data files exist. Collective. `dir` and `step` must
// be equal on all ranks.
// Errors: NotFound - no such step; otherwise those of Restore.
StatusOr<ChosenStep> ChooseStep(const Comm& comm, const std::string& dir,
                                std::optional<int64_t> step,
                                const RestoreOptions& options = {});

// Restores values of the chosen step, even if newer steps were committed since.
// Collective. May be called each time new values exist. `chosen` and `options`
// must be equal on all ranks.
// Errors: those of Restore; FailedPrecondition - another save has replaced the
//   step, or no step was chosen.
StatusOr<RestoreResult> Restore(const Comm& comm, const ChosenStep& chosen,
                                const State& state,
                                const RestoreOptions& options = {});

// Default name prefix of step directories.
inline constexpr std::string_view kStepPrefix = "step";

// Returns the directory of a step: "run/step_00000042". Local.
std::string StepPath(const std::string& dir, int64_t step,
                     std::string_view prefix = kStepPrefix);

// Returns the numbers of the committed steps in `dir` with this prefix,
// ascending. Local. Leftovers of crashed saves are not listed.
// Errors: NotFound - no such directory; InvalidArgument - `dir` is a step;
//   PermissionDenied; Internal.
StatusOr<std::vector<int64_t>> ListSteps(const std::string& dir,
                                         std::string_view prefix = kStepPrefix);

}  // namespace belay

#endif  // BELAY_SAVE_RESTORE_H_
