#include "storage/directory.h"

#include <fcntl.h>
#include <stdio.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "core/fault.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "format/paths.h"
#include "storage/posix_file.h"

namespace belay {
namespace {

// Explains why no directory can be made in this one's parent.
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

namespace {

// Undoes its renames if one fails.
Status SwapByRenames(const std::string& a, const std::string& b) {
  const std::string spare = ReplacedName(b);
  // A crash between these renames may have left it; `b` exists, so nobody
  // needs it.
  BELAY_RETURN_IF_ERROR(RemoveTree(spare));
  BELAY_RETURN_IF_ERROR(Rename(b, spare));
  Status status = Rename(a, b);
  if (status.ok()) {
    status = Rename(spare, a);
    if (status.ok()) return status;
    Rename(b, a).IgnoreError();
  }
  Rename(spare, b).IgnoreError();
  return status;
}

}  // namespace

Status MakeDirectory(const std::string& path) {
  BELAY_RETURN_IF_ERROR(fault::Point("create directory"));
  if (::mkdir(path.c_str(), 0777) == 0) return absl::OkStatus();
  return ErrnoStatus(errno, "create directory", path);
}

Status SyncDirectory(const std::string& path) {
  BELAY_RETURN_IF_ERROR(fault::Point("sync directory"));
  const Descriptor file(Retry([&] {
    return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  }));
  if (file.fd() >= 0 && Retry([&] { return ::fsync(file.fd()); }) == 0) {
    return absl::OkStatus();
  }
  return ErrnoStatus(errno, "sync directory", path);
}

Status Rename(const std::string& from, const std::string& to) {
  BELAY_RETURN_IF_ERROR(fault::Point("rename"));
  if (::rename(from.c_str(), to.c_str()) == 0) return absl::OkStatus();
  return ErrnoStatus(errno, "rename", absl::StrCat(from, "\" to \"", to));
}

Status Swap(const std::string& a, const std::string& b) {
  BELAY_RETURN_IF_ERROR(fault::Point("swap"));
  if (::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) ==
      0) {
    return absl::OkStatus();
  }
  if (errno != EINVAL && errno != ENOSYS && errno != EOPNOTSUPP) {
    return ErrnoStatus(errno, "swap", absl::StrCat(a, "\" and \"", b));
  }
  return SwapByRenames(a, b);
}

Status RemoveTree(const std::string& path) {
  BELAY_RETURN_IF_ERROR(fault::Point("remove"));
  std::error_code error;
  std::filesystem::remove_all(path, error);
  if (!error) return absl::OkStatus();
  return ErrnoStatus(error.value(), "remove", path);
}

StatusOr<bool> Exists(const std::string& path) {
  BELAY_RETURN_IF_ERROR(fault::Point("find"));
  struct stat stat;
  if (::lstat(path.c_str(), &stat) == 0) return true;
  if (errno == ENOENT || errno == ENOTDIR) return false;
  return ErrnoStatus(errno, "find", path);
}

StatusOr<std::vector<std::string>> ListDirectory(const std::string& path) {
  BELAY_RETURN_IF_ERROR(fault::Point("list directory"));
  std::error_code error;
  std::vector<std::string> names;
  std::filesystem::directory_iterator entry(path, error);
  while (!error && entry != std::filesystem::directory_iterator()) {
    names.push_back(entry->path().filename().string());
    entry.increment(error);
  }
  if (error) return ErrnoStatus(error.value(), "list directory", path);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace belay
