// The directory of a step: begun under a temporary name, committed by a
// rename.

#ifndef BELAY_STORE_COMMIT_H_
#define BELAY_STORE_COMMIT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "belay/status.h"

namespace belay {

// Makes <run>/step_N.inprogress, empty but for the marker of `nonce`, and <run>
// itself if its parent exists. Debris of an earlier save of this step is
// removed, and a step that a crash left half replaced gets its name back. With
// `durable`, the name of a new <run> is synced. Rank 0 only.
// Errors: AlreadyExists - the step is committed and `overwrite` is false; those
//   of MakeDirectory and RemoveTree.
Status BeginStep(const std::string& run, int64_t step, bool overwrite,
                 bool durable, uint64_t nonce);

// Looks for the marker, which proves that this rank sees the directory that
// rank 0 made. Local.
// Errors: FailedPrecondition - it does not.
Status CheckSharedDirectory(const std::string& run, int64_t step,
                            uint64_t nonce);

// Removes the marker and renames the directory to <run>/step_N: the commit
// point. A step that is there already is swapped against it and waits under the
// temporary name. With `durable`, directories are synced before and after.
// After an error the step is not committed. Rank 0 only.
// Errors: FailedPrecondition - the marker is gone: another save of the step has
//   taken the directory over; those of Rename and SyncDirectory.
Status CommitStep(const std::string& run, int64_t step, bool durable,
                  uint64_t nonce);

// Takes a commit back that not all ranks have heard of. Rank 0 only.
// Errors: those of Rename; the step is then still there.
Status UndoCommit(const std::string& run, int64_t step);

// Whether the directory in progress is the one that `nonce` began. Local.
StatusOr<bool> IsOurs(const std::string& run, int64_t step, uint64_t nonce);

// Removes <run>/step_N.inprogress: what is left of a failed save, or a step
// that was replaced; best effort, so that no other result is hidden. Rank 0
// only.
void RemoveDebris(const std::string& run, int64_t step);

// The steps that are committed in `run`, ascending. Local.
// Errors: NotFound - no such directory; those of ListDirectory.
StatusOr<std::vector<int64_t>> CommittedSteps(const std::string& run);

}  // namespace belay

#endif  // BELAY_STORE_COMMIT_H_
