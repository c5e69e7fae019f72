// Which checkpoint to restore.

#ifndef BELAY_RESTORE_RESTORE_SOURCE_H_
#define BELAY_RESTORE_RESTORE_SOURCE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "belay/status.h"

namespace belay {

struct RestoreSource {
  enum class Kind : uint8_t {
    kCheckpoint,  // `path` is that of the checkpoint
    kRun,         // `path` itself, or the newest step in it
    kAny,         // what ResolveStep finds, or a flat file
    kFlatFile,    // an HDF5 file that another program wrote
  };

  std::string path;
  Kind kind = Kind::kCheckpoint;
  // Its number; -1: any.
  int64_t step = -1;
  // Tells it from another save of the same name; 0: of any save.
  uint64_t identity = 0;
};

// What a caller means by a directory and a number. Local.
// Errors: InvalidArgument - a negative number.
StatusOr<RestoreSource> SourceOf(const std::string& dir,
                                 std::optional<int64_t> step);

}  // namespace belay

#endif  // BELAY_RESTORE_RESTORE_SOURCE_H_
