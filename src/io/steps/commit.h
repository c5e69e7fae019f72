// The directory of a checkpoint: begun under a temporary name, committed by a
// rename. `path` is the committed one, such as "run/step_00000042".

#ifndef BELAY_IO_STEPS_COMMIT_H_
#define BELAY_IO_STEPS_COMMIT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "belay/status.h"
#include "format/paths.h"

namespace belay {

// Restore and `belay` take a step as well as the directory of a run, so one is
// easily given for the other. Local.
// Errors: InvalidArgument - `dir` is a step; those of Exists.
Status CheckIsNoStep(std::string_view operation, const std::string& dir);

// Makes <path>.inprogress, empty but for the marker of `nonce`, and the
// directory that holds it if the next one up exists. Debris of an earlier save
// of this name is removed, and a checkpoint that a crash left half replaced
// gets its name back. With `durable`, the name of a new directory above is
// synced. Rank 0 only.
// Errors: AlreadyExists - `path` is there and `overwrite` is false;
//   InvalidArgument - the directory that holds it is a step itself;
//   FailedPrecondition - what would be removed is not belay's alone, or a
//   program has pinned it; those of MakeDirectory and RemoveTree.
Status BeginStep(const std::string& path, bool overwrite, bool durable,
                 uint64_t nonce);

// Looks for the marker, which proves that this rank sees the directory that
// rank 0 made; `seconds` at most. Returns whether it does. Local.
// Errors: those of WaitUntilSeen.
StatusOr<bool> WaitForStep(const std::string& path, uint64_t nonce,
                           double seconds);

// Removes the marker and renames the directory to `path`: the commit point. A
// checkpoint that is there already is swapped against it and waits under the
// temporary name. With `durable`, directories are synced before and after.
// After an error `path` is not committed. Rank 0 only.
// Errors: those of CheckOurs; FailedPrecondition - a program has pinned what is
//   there; those of Rename and SyncDirectory.
Status CommitStep(const std::string& path, bool durable, uint64_t nonce);

// Takes a commit back that not all ranks have heard of. Rank 0 only.
// Errors: those of Rename; `path` is then still there.
Status UndoCommit(const std::string& path);

// Whether the directory in progress is the one that `nonce` began. Local.
StatusOr<bool> IsOurs(const std::string& path, uint64_t nonce);

// The same as an error that says why it is not. Local.
// Errors: FailedPrecondition - another save of this name has taken the
// directory
//   over; NotFound - it is gone, or no longer seen; those of ListDirectory.
Status CheckOurs(std::string_view operation, const std::string& path,
                 uint64_t nonce);

// Removes <path>.inprogress: what is left of a failed save, or a checkpoint
// that was replaced; best effort, so that no other result is hidden. Rank 0
// only.
void RemoveDebris(const std::string& path);

// All steps that are committed in `run`, by prefix and number. Local.
// Errors: NotFound - no such directory; those of ListDirectory.
StatusOr<std::vector<StepLabel>> CommittedLabels(const std::string& run);

// The numbers of the steps with this prefix that are committed in `run`,
// ascending. Local.
// Errors: those of CommittedLabels.
StatusOr<std::vector<int64_t>> CommittedSteps(const std::string& run,
                                              std::string_view prefix);

}  // namespace belay

#endif  // BELAY_IO_STEPS_COMMIT_H_
