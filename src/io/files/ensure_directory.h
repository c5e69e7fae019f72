// A directory that belay makes if it is not there.

#ifndef BELAY_IO_FILES_ENSURE_DIRECTORY_H_
#define BELAY_IO_FILES_ENSURE_DIRECTORY_H_

#include <string>

#include "belay/status.h"

namespace belay {

// Makes the directory `path` if that name is free, and with `durable` makes it
// stay. Its parent must exist. Local. OK if another program is quicker, and for
// whatever has the name already.
// Errors: NotFound - no parent, which is named; those of MakeDirectory and
//   SyncDirectory.
Status EnsureDirectory(const std::string& path, bool durable);

}  // namespace belay

#endif  // BELAY_IO_FILES_ENSURE_DIRECTORY_H_
