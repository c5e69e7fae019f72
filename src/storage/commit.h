// The directory of a step in progress, and its commit.

#ifndef BELAY_STORAGE_COMMIT_H_
#define BELAY_STORAGE_COMMIT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "belay/status.h"
#include "format/paths.h"

namespace belay {

// Returns FailedPrecondition: another save of the step `path` interferes;
// `what` says what it has done.
Status SavedTwice(std::string_view operation, const std::string& path,
                  std::string_view what);

// Waits until `path` holds `content`, at most `seconds`: a network file system
// may show a new file late. Returns true if it does.
// Errors: those of PosixFile.
StatusOr<bool> WaitUntilHolds(const std::string& path,
                              const std::string& content, double seconds);

// The directory of a checkpoint: begun under a temporary name, committed by a
// rename. `path` is the committed name, such as "run/step_00000042".

// Checks that `dir` can be the directory of a run. Restore and the `belay`
// command also accept a step, so users easily confuse the two.
// Errors: InvalidArgument - `dir` is a step, or has the name of one in
//   progress; those of Exists.
Status CheckIsNoStep(std::string_view operation, const std::string& dir);

// Creates <path>.inprogress, which contains only the marker of `nonce`, and its
// parent directory if the grandparent exists. Removes debris of earlier saves
// of this step, and restores the name of a checkpoint whose replacement was
// interrupted by a crash. With `durable`, syncs the name of a new parent. Rank
// 0 only.
// Errors: AlreadyExists - `path` exists and `overwrite` is false;
//   InvalidArgument - its parent is a step itself; FailedPrecondition - what
//   would be removed contains files not made by belay, or a program has pinned
//   it; those of MakeDirectory and RemoveTree.
Status BeginStep(const std::string& path, bool overwrite, bool durable,
                 uint64_t nonce);

// Waits for the marker, at most `seconds`. The marker proves that this rank
// sees the directory that rank 0 made.
// Errors: those of Exists.
StatusOr<bool> WaitForStep(const std::string& path, uint64_t nonce,
                           double seconds);

// Moves the directory in progress to <path>.<nonce>.inprogress, where no other
// save of this step looks for it. Whatever is then committed or removed there
// belongs to this save, even if other saves run concurrently. Rank 0 only.
// Errors: those of CheckOurs and Rename; the directory has not moved.
Status TakeStep(const std::string& path, uint64_t nonce);

// Removes the marker and renames the directory that was taken to `path`: the
// commit point. With `overwrite`, swaps an existing checkpoint with it; the old
// checkpoint is left under the temporary name. With `durable`, syncs
// directories before and after. After an error, `path` is not committed, unless
// the message says so because the commit could not be undone. Rank 0 only.
// Errors: AlreadyExists - another save has committed `path`;
//   FailedPrecondition - a program has pinned the existing checkpoint; those of
//   Rename and SyncDirectory.
Status CommitStep(const std::string& path, bool overwrite, bool durable,
                  uint64_t nonce);

// Undoes a commit that not all ranks have learned of. Rank 0 only.
// Errors: those of Rename; `path` then still exists.
Status UndoCommit(const std::string& path, uint64_t nonce);

// Returns `failure`, of a save after its commit. Unless `undone` is OK, the
// message adds that the step exists.
Status AfterUndo(const std::string& path, const Status& failure,
                 const Status& undone);

// Checks that the directory in progress is the one that `nonce` began; the
// error says why it is not. A file that was opened by its name before the check
// is then in that directory as well.
// Errors: FailedPrecondition - another save of this step has taken it over;
//   NotFound - it is gone, or no longer visible; those of ListDirectory.
Status CheckOurs(std::string_view operation, const std::string& path,
                 uint64_t nonce);

// Removes a directory that was taken: the rest of a failed save, or a replaced
// checkpoint. Best effort: errors are ignored so that they hide no other
// result. Rank 0 only.
void RemoveDebris(const std::string& path, uint64_t nonce);

// Removes everything that saves of this step have left in progress, no matter
// which save began it. A save that is still running then fails. Local; only
// rank 0 calls it.
// Errors: FailedPrecondition - something in it is not belay's; those of
//   ListDirectory, Rename and RemoveTree.
Status RemoveAllDebris(const std::string& path);

// Returns true if the directory is a committed step: it has an index. Also true
// while the step is being replaced.
StatusOr<bool> IsStep(const std::string& path);

// Returns all steps that are committed in `run`, by prefix and number. Looks
// again if there seem to be none.
// Errors: NotFound - no such directory; those of ListDirectory.
StatusOr<std::vector<StepLabel>> CommittedLabels(const std::string& run);

// Returns the numbers of the steps with this prefix that are committed in
// `run`, ascending. Looks again if there seem to be none with this prefix.
// Errors: those of CommittedLabels.
StatusOr<std::vector<int64_t>> CommittedSteps(const std::string& run,
                                              std::string_view prefix);

// True for the name of a data file, "data_<digits>_of_<digits>.h5".
bool IsDataFile(std::string_view name);

// Checks that belay made everything in a step directory. The error begins with
// `operation` and ends with `consequence`.
// Errors: FailedPrecondition - there are other files, of which a few are named;
//   those of ListDirectory.
Status CheckOnlyOwn(std::string_view operation, const std::string& path,
                    std::string_view consequence);

// Removes debris of a step, if it contains nothing else. Rank 0 only.
// Errors: FailedPrecondition - something in it is not belay's; then nothing is
//   removed; those of ListDirectory and RemoveTree.
Status RemoveOwn(const std::string& path);

// Checks that `path` may be replaced: it contains only a checkpoint or the rest
// of one, for example without its index.
// Errors: FailedPrecondition - it does not, or has files not made by belay.
Status CheckReplaceable(const std::string& path);

// "the steps are 1, 2, 3"; lists only the newest if there are many.
std::string StepsText(const std::vector<int64_t>& steps);

// `OPERATION "run/step_00000009": the step has no index.h5; ...`.
Status NoIndex(std::string_view operation, const std::string& path);

// `OPERATION "run/step_00000009": no such step; the steps are 1, 2, 3`, or
// NoIndex if the directory exists.
Status NoSuchStep(std::string_view operation, const std::string& path);

// "; use an earlier step, such as 8", for the error of a damaged step; empty if
// `path` has no step name.
std::string EarlierStepHint(const std::string& path);

// Appends the hint to a DataLoss status that does not have it yet.
Status WithEarlierStep(const Status& status, const std::string& path);

// Removes that hint, for callers that retry with the earlier step themselves.
Status WithoutEarlierStep(const Status& status);

}  // namespace belay

#endif  // BELAY_STORAGE_COMMIT_H_
