#include "io/files/ensure_directory.h"

#include <string>

#include "base/status_macros.h"
#include "base/text.h"
#include "format/paths.h"
#include "io/files/posix_file.h"

namespace belay {
namespace {

// What is the matter with the directory that another cannot be made in.
std::string AboutParent(const std::string& path) {
  const std::string parent = ParentOf(path);
  if (Exists(JoinPath(parent, ".")).value_or(true)) return "";
  return Exists(parent).value_or(false)
             ? Cat("; \"", parent,
                   "\" is a symbolic link to a missing directory")
             : Cat("; make \"", parent, "\" first");
}

}  // namespace

Status EnsureDirectory(const std::string& path, bool durable) {
  BELAY_ASSIGN_OR_RETURN(const bool exists, Exists(path));
  if (exists) return absl::OkStatus();
  const Status made = MakeDirectory(path);
  if (absl::IsNotFound(made)) {
    return absl::NotFoundError(Cat(made.message(), AboutParent(path)));
  }
  if (!made.ok() && !absl::IsAlreadyExists(made)) return made;
  return durable ? SyncDirectory(ParentOf(path)) : absl::OkStatus();
}

}  // namespace belay
