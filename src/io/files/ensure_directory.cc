#include "io/files/ensure_directory.h"

#include "base/status_macros.h"
#include "base/text.h"
#include "format/paths.h"
#include "io/files/posix_file.h"

namespace belay {

Status EnsureDirectory(const std::string& path, bool durable) {
  BELAY_ASSIGN_OR_RETURN(const bool exists, Exists(path));
  if (exists) return absl::OkStatus();
  const Status made = MakeDirectory(path);
  if (absl::IsNotFound(made) && !Exists(ParentOf(path)).value_or(true)) {
    return absl::NotFoundError(
        Cat(made.message(), "; make \"", ParentOf(path), "\" first"));
  }
  if (!made.ok() && !absl::IsAlreadyExists(made)) return made;
  return durable ? SyncDirectory(ParentOf(path)) : absl::OkStatus();
}

}  // namespace belay
