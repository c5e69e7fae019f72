// Small files that are written and read in one go.

#ifndef BELAY_IO_FILES_WHOLE_FILE_H_
#define BELAY_IO_FILES_WHOLE_FILE_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "belay/status.h"

namespace belay {

// Returns the content of a regular file. Local.
// Errors: those of PosixFile; DataLoss - it has more than `most` bytes;
//   ResourceExhausted - more than there is memory for.
StatusOr<std::string> ReadWhole(const std::string& path,
                                int64_t most = INT64_MAX);

// Creates the file; durable: and syncs it. Local.
// Errors: those of PosixFile.
Status WriteWhole(const std::string& path, std::string_view content,
                  bool durable);

}  // namespace belay

#endif  // BELAY_IO_FILES_WHOLE_FILE_H_
