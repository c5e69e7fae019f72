// Telling belay's files from those of others, before anything is removed.

#ifndef BELAY_STORE_OWN_FILES_H_
#define BELAY_STORE_OWN_FILES_H_

#include <string>
#include <vector>

#include "belay/status.h"

namespace belay {

// The names in a step directory, or in debris of one, that belay did not make;
// at most a few. Local.
// Errors: those of ListDirectory.
StatusOr<std::vector<std::string>> ForeignNames(const std::string& directory);

// Removes a step directory or debris of one, if there is nothing else in it.
// Rank 0 only.
// Errors: FailedPrecondition - something in it is not belay's; then nothing is
//   removed; those of ListDirectory and RemoveTree.
Status RemoveOwn(const std::string& path);

// Checks that `path` is a checkpoint and nothing else, so that another one may
// take its place. Local.
// Errors: FailedPrecondition - it is not, or holds somebody else's files.
Status CheckReplaceable(const std::string& path);

}  // namespace belay

#endif  // BELAY_STORE_OWN_FILES_H_
