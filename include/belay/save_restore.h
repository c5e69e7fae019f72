// Save and Restore: the whole library in two functions.
//
//   auto comm = belay::Comm::Duplicate(MPI_COMM_WORLD);
//   belay::State state;
//   state.AddPiece("weights", {rows, 8}, my_box, my_rows.data());
//   auto restored = belay::RestoreLatestOrNothing(*comm, "run", state);
//   auto saved = belay::Save(*comm, "run", step, state);
//
// A checkpoint is the directory <dir>/step_<number>. It appears in one atomic
// rename once every byte is on disk, and nothing in it changes afterwards.

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

// In place of the number of a step: the committed one with the largest number.
// No number means it: a negative one is an error.
inline constexpr std::nullopt_t kLatestStep = std::nullopt;

struct CachedPlan;

// Remembers the plan, the file offsets and the metadata bytes of the last
// save. While the structure of the state (keys, dtypes, shapes, boxes, lengths
// of strings), the options and the ranks stay the same, the next save skips
// planning and all HDF5 calls; where it has changed, ranks tell what has
// changed since. Memory: about 200 bytes per shard; on the ranks that make
// files, their metadata; on rank 0, once what ranks list alike. Move only.
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

// Writes `state` as the step <dir>/step_<step>. Collective.
// Same on all ranks: dir, step, options but `cache`, and for each key dtype and
// shape.
// Creates `dir` if its parent exists. On any error nothing is committed, and
// earlier steps are untouched; calling again is allowed.
// Errors: InvalidArgument - ranks disagree, shards overlap or leave a gap, a
//   negative step, a value out of its range, `dir` is a step; OutOfRange - a
//   box leaves its shape; AlreadyExists - the step is committed and overwrite
//   is off; NotFound - the parent of `dir` is missing; FailedPrecondition -
//   ranks do not see the same directory; ResourceExhausted - no space; and
//   PermissionDenied, DataLoss, Internal as in status.h.
// Cost: some 30 small collectives, whatever the number of arrays, and one
// MPI-IO collective per round; the next save of the same structure with
// options.cache: some 20. Each file more that a sharding policy makes: five.
StatusOr<SaveResult> Save(const Comm& comm, const std::string& dir,
                          int64_t step, const State& state,
                          const SaveOptions& options = {});

// Reads the values of `state` from a committed step. Collective.
// `dir` is a directory of steps or, with kLatestStep, also the directory of one
// step, whatever its name: "run/step_00000042", or a copy of it, "best".
// Same on all ranks: dir, step, options. Each rank lists what it wants: any
// boxes, on any number of ranks. Keys of the file that nobody lists are left
// alone. On an error the values are unspecified.
// Errors: NotFound - no such step, or a key is absent; FailedPrecondition -
//   another dtype or shape, and `options` do not allow it; DataLoss - a damaged
//   index or data file, or a directory that is a copy of another step;
//   Unimplemented - a newer major version; InvalidArgument - ranks disagree, a
//   negative step.
StatusOr<RestoreResult> Restore(const Comm& comm, const std::string& dir,
                                std::optional<int64_t> step, const State& state,
                                const RestoreOptions& options = {});

// Restores the newest committed step, as Restore with kLatestStep, or returns
// nothing where there is none yet: `dir` does not exist, or holds no committed
// step. Then the values stay as they are. Collective. Only rank 0 looks at the
// directory. Same on all ranks: dir, options.
// Errors: those of Restore: a step that is there and cannot be restored is one,
//   and so is a directory that cannot be looked at.
StatusOr<std::optional<RestoreResult>> RestoreLatestOrNothing(
    const Comm& comm, const std::string& dir, const State& state,
    const RestoreOptions& options = {});

// A step that was chosen for restoring values that may not exist yet. A plain
// value, equal on all ranks. What it holds can be looked up with a
// CheckpointReader of `path`.
class PendingRestore {
 public:
  // Nothing is pending. Local.
  PendingRestore() = default;

  // The directory of the step and its number. Local.
  const std::string& path() const { return path_; }
  int64_t step() const { return step_; }

 private:
  friend StatusOr<PendingRestore> RestoreLater(const Comm& comm,
                                               const std::string& dir,
                                               std::optional<int64_t> step,
                                               const RestoreOptions& options);
  friend StatusOr<RestoreResult> Restore(const Comm& comm,
                                         const PendingRestore& pending,
                                         const State& state,
                                         const RestoreOptions& options);

  std::string path_;
  int64_t step_ = 0;
  uint64_t identity_ = 0;  // tells it from a step that is saved in its place
};

// Chooses the step, `dir` and `step` as for Restore, and checks that its index
// is readable and its data files are there. Collective. Same on all ranks: dir,
// step.
// Errors: NotFound - no such step; otherwise those of Restore.
StatusOr<PendingRestore> RestoreLater(const Comm& comm, const std::string& dir,
                                      std::optional<int64_t> step,
                                      const RestoreOptions& options = {});

// Restores values of the step that was chosen, whatever was committed since.
// Collective. May be called as often as values come into being. Same on all
// ranks: pending, options.
// Errors: those of Restore; FailedPrecondition - another save has replaced the
//   step, or nothing is pending.
StatusOr<RestoreResult> Restore(const Comm& comm, const PendingRestore& pending,
                                const State& state,
                                const RestoreOptions& options = {});

// How the directories of steps are called, unless a program calls them
// otherwise.
inline constexpr std::string_view kStepPrefix = "step";

// Returns the directory of a step: "run/step_00000042". Local.
std::string StepPath(const std::string& dir, int64_t step,
                     std::string_view prefix = kStepPrefix);

// Returns the numbers of the steps in `dir` that are committed and have this
// prefix, ascending. Local. Debris of crashed saves is not listed.
// Errors: NotFound - no such directory; InvalidArgument - `dir` is a step;
//   PermissionDenied; Internal.
StatusOr<std::vector<int64_t>> ListSteps(const std::string& dir,
                                         std::string_view prefix = kStepPrefix);

}  // namespace belay

#endif  // BELAY_SAVE_RESTORE_H_
