// Opening files, and nothing else that has a name.

#ifndef BELAY_IO_FILES_OPEN_REGULAR_H_
#define BELAY_IO_FILES_OPEN_REGULAR_H_

#include <sys/types.h>

#include <string>
#include <string_view>

#include "base/symbolic_links.h"
#include "belay/status.h"

namespace belay {

// Opens a file with flags of open(2), and returns its descriptor, which the
// caller closes. Does not wait for the other end of a pipe. A file that is made
// has `mode`, less the umask. `links` is about the last name of the path.
// Passes no fault point. Local.
// Errors: `OPERATION "PATH": cause` as ErrnoStatus has them; InvalidArgument -
//   it is not a regular file, or a symbolic link; says what it is.
StatusOr<int> OpenRegular(const std::string& path, int flags,
                          std::string_view operation, mode_t mode = 0666,
                          Links links = Links::kRefused);

// Whether an open file still has this name, or is what a link of this name
// leads to. Local.
bool HasName(int fd, const std::string& path);

}  // namespace belay

#endif  // BELAY_IO_FILES_OPEN_REGULAR_H_
