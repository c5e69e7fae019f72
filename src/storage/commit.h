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

// Returns FailedPrecondition: another save of the step `path` is in the way,
// and `what` says what it has done.
Status SavedTwice(std::string_view operation, const std::string& path,
                  std::string_view what);

// Waits until `path` holds `content`, for `seconds` at most: a network file
// system may show a new file late. Returns whether it does.
// Errors: those of PosixFile.
StatusOr<bool> WaitUntilHolds(const std::string& path,
                              const std::string& content, double seconds);

// The directory of a checkpoint: begun under a temporary name, committed by a
// rename. `path` is the committed one, such as "run/step_00000042".

// Checks that `dir` can be the directory of a run. Restore and `belay` take a
// step as well, so one is easily given for the other.
// Errors: InvalidArgument - `dir` is a step, or has the name of one in
//   progress; those of Exists.
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

// Waits likewise for the marker, which proves that this rank sees the directory
// that rank 0 made.
// Errors: those of Exists.
StatusOr<bool> WaitForStep(const std::string& path, uint64_t nonce,
                           double seconds);

// Moves the directory in progress to <path>.<nonce>.inprogress, where no other
// save of this step looks for it: what is committed or removed there is this
// save's own, whatever others do at the same time. Rank 0 only.
// Errors: those of CheckOurs and Rename; it has not moved.
Status TakeStep(const std::string& path, uint64_t nonce);

// Removes the marker and renames the directory that was taken to `path`: the
// commit point. With `overwrite` a checkpoint that is there already is swapped
// against it and waits under the temporary name. With `durable`, directories
// are synced before and after. After an error `path` is not committed, unless
// its message says so: where the commit could not be undone either. Rank 0
// only.
// Errors: AlreadyExists - another save has committed `path`;
//   FailedPrecondition - a program has pinned what is there; those of Rename
//   and SyncDirectory.
Status CommitStep(const std::string& path, bool overwrite, bool durable,
                  uint64_t nonce);

// Takes a commit back that not all ranks have heard of. Rank 0 only.
// Errors: those of Rename; `path` is then still there.
Status UndoCommit(const std::string& path, uint64_t nonce);

// Returns why a save has failed after its commit, and, unless that is undone,
// that the step is there.
Status AfterUndo(const std::string& path, const Status& failure,
                 const Status& undone);

// Checks that the directory in progress is the one that `nonce` began, and says
// why it is not. A file that was opened by its name before is in that
// directory, too.
// Errors: FailedPrecondition - another save of this step has taken it over;
//   NotFound - it is gone, or no longer seen; those of ListDirectory.
Status CheckOurs(std::string_view operation, const std::string& path,
                 uint64_t nonce);

// Removes a directory that was taken: what is left of a failed save, or a
// checkpoint that was replaced; best effort, so that no other result is hidden.
// Rank 0 only.
void RemoveDebris(const std::string& path, uint64_t nonce);

// Removes what saves of this step have left in progress, whoever began them;
// one that is still running fails. Local; rank 0 does it.
// Errors: FailedPrecondition - something in it is not belay's; those of
//   ListDirectory, Rename and RemoveTree.
Status RemoveAllDebris(const std::string& path);

// Returns whether the directory is a committed step: it has an index. True also
// while the step is being replaced.
StatusOr<bool> IsStep(const std::string& path);

// All steps that are committed in `run`, by prefix and number. Looks again if
// there seem to be none.
// Errors: NotFound - no such directory; those of ListDirectory.
StatusOr<std::vector<StepLabel>> CommittedLabels(const std::string& run);

// The numbers of the steps with this prefix that are committed in `run`,
// ascending. Looks again if there seem to be none of this prefix.
// Errors: those of CommittedLabels.
StatusOr<std::vector<int64_t>> CommittedSteps(const std::string& run,
                                              std::string_view prefix);

// True for the name of a data file, "data_<digits>_of_<digits>.h5".
bool IsDataFile(std::string_view name);

// Checks that belay made all that is in a step directory. The error
// begins with `operation` and ends with `consequence`.
// Errors: FailedPrecondition - somebody else's files, at most a few are named;
//   those of ListDirectory.
Status CheckOnlyOwn(std::string_view operation, const std::string& path,
                    std::string_view consequence);

// Removes debris of a step, if there is nothing else in it. Rank 0 only.
// Errors: FailedPrecondition - something in it is not belay's; then nothing is
//   removed; those of ListDirectory and RemoveTree.
Status RemoveOwn(const std::string& path);

// Checks that `path` is a checkpoint or what is left of one, such as one that
// lacks its index, and nothing else, so that another one may take its place.
// Errors: FailedPrecondition - it is not, or holds somebody else's files.
Status CheckReplaceable(const std::string& path);

// "the steps are 1, 2, 3"; of many only the newest.
std::string StepsText(const std::vector<int64_t>& steps);

// `OPERATION "run/step_00000009": the step has no index.h5; ...`.
Status NoIndex(std::string_view operation, const std::string& path);

// `OPERATION "run/step_00000009": no such step; the steps are 1, 2, 3`, or
// NoIndex if the directory exists.
Status NoSuchStep(std::string_view operation, const std::string& path);

// "; use an earlier step, such as 8", for the error of a damaged step; empty if
// `path` is not that of a step in a directory of steps.
std::string EarlierStepHint(const std::string& path);

// Appends the hint to a DataLoss status that does not have it yet.
Status WithEarlierStep(const Status& status, const std::string& path);

// Removes that hint, for callers that try the earlier step themselves.
Status WithoutEarlierStep(const Status& status);

}  // namespace belay

#endif  // BELAY_STORAGE_COMMIT_H_
