// Opening and reading regular files, and nothing else that has a name.

#ifndef BELAY_STORAGE_OPEN_FILE_H_
#define BELAY_STORAGE_OPEN_FILE_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "belay/status.h"
#include "core/process.h"

namespace belay {

// Opening files, and nothing else that has a name.

// Opens a file with flags of open(2), and returns its descriptor, which the
// caller closes. Does not wait for the other end of a pipe. A file that is made
// has `mode`, less the umask. `links` is about the last name of the path.
// Passes no fault point.
// Errors: `OPERATION "PATH": cause` as ErrnoStatus has them; InvalidArgument -
//   it is not a regular file, or a symbolic link; says what it is.
StatusOr<int> OpenRegular(const std::string& path, int flags,
                          std::string_view operation, mode_t mode = 0666,
                          Links links = Links::kRefused);

// Whether an open file still has this name, or is what a link of this name
// leads to.
bool HasName(int fd, const std::string& path);

// Small files that are written and read in one go.

// Returns the content of a regular file.
// Errors: those of PosixFile; DataLoss - it has more than `most` bytes;
//   ResourceExhausted - more than there is memory for.
StatusOr<std::string> ReadWhole(const std::string& path,
                                int64_t most = INT64_MAX);

// Creates the file; durable: and syncs it.
// Errors: those of PosixFile.
Status WriteWhole(const std::string& path, std::string_view content,
                  bool durable);

}  // namespace belay

#endif  // BELAY_STORAGE_OPEN_FILE_H_
