// Tells belay's files from those of others, before anything is removed.

#ifndef BELAY_IO_STEPS_BELAY_FILES_H_
#define BELAY_IO_STEPS_BELAY_FILES_H_

#include <string>
#include <string_view>

#include "belay/status.h"

namespace belay {

// Whether that is the name of a data file, "data_<digits>_of_<digits>.h5".
// Local.
bool IsDataFile(std::string_view name);

// Checks that belay made all that is in a step directory. Local. The error
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
// Local.
// Errors: FailedPrecondition - it is not, or holds somebody else's files.
Status CheckReplaceable(const std::string& path);

}  // namespace belay

#endif  // BELAY_IO_STEPS_BELAY_FILES_H_
