// The files of belay in a step, and the errors of missing and damaged steps.

#ifndef BELAY_STORAGE_BELAY_FILES_H_
#define BELAY_STORAGE_BELAY_FILES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "belay/status.h"

namespace belay {

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

#endif  // BELAY_STORAGE_BELAY_FILES_H_
