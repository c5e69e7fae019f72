#include "storage/file_lock.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "core/fault.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "format/paths.h"

namespace belay {

int SetOpenFileLock(int fd, short type) {
  struct flock lock = {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  return Retry([&] { return ::fcntl(fd, F_OFD_SETLK, &lock); });
}

namespace {

// Gives read and write permission to the users that may write to the file's
// directory. Leaves the file as it is if that fails: the file system may not
// support modes.
void TakeRightsOfDirectory(int fd, const std::string& path) {
  struct stat file = {}, directory = {};
  if (::fstat(fd, &file) != 0 ||
      ::stat(GetParent(path).c_str(), &directory) != 0) {
    return;
  }
  const mode_t writers = directory.st_mode & (S_IWUSR | S_IWGRP | S_IWOTH);
  const mode_t mode = S_IRUSR | S_IWUSR | writers | (writers << 1);
  if (file.st_uid != ::geteuid() || (file.st_mode & 0777) == mode) return;
  // Gives the file the group of the directory, unless an access control list
  // names the writers; then the mode is only an upper bound.
  const bool has_list =
      ::fgetxattr(fd, "system.posix_acl_access", nullptr, 0) > 0;
  if (file.st_gid != directory.st_gid && !has_list &&
      ::fchown(fd, static_cast<uid_t>(-1), directory.st_gid) != 0) {
    return;
  }
  if (::fchmod(fd, mode) != 0) errno = 0;
}

// Checks that only belay can have made an existing file: it has no other name,
// and holds what belay writes. Otherwise somebody may have linked another
// user's file here.
Status CheckIsOurs(int fd, const std::string& path,
                   std::string_view beginning) {
  struct stat stat = {};
  if (::fstat(fd, &stat) != 0) return ErrnoStatus(errno, "open", path);
  if (stat.st_nlink > 1) {
    return absl::FailedPreconditionError(
        Cat("open \"", path, "\": the file has other names, too (need 1 hard ",
            "link, found ", stat.st_nlink, "): not made by belay; remove it"));
  }
  std::string content(beginning.empty() ? 1 : beginning.size(), '\0');
  const ssize_t count =
      Retry([&] { return ::pread(fd, content.data(), content.size(), 0); });
  if (count < 0) return ErrnoStatus(errno, "read", path);
  content.resize(static_cast<size_t>(count));
  if (beginning.starts_with(content)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      Cat("open \"", path, "\": not written by belay; move the file away if ",
          "the directory is to hold checkpoints"));
}

}  // namespace

StatusOr<FileLock> FileLock::Open(std::string path,
                                  std::string_view beginning) {
  BELAY_RETURN_IF_ERROR(fault::Point("open"));
  // A symbolic link must never redirect these writes, whatever the environment
  // allows.
  constexpr int kFlags = O_RDWR | O_CREAT | O_NOFOLLOW;
  constexpr mode_t kMode = S_IRUSR | S_IWUSR;
  StatusOr<Descriptor> file = OpenRegular(path, kFlags | O_EXCL, "open", kMode);
  const bool is_new = file.ok();
  if (absl::IsAlreadyExists(file.status())) {
    file = OpenRegular(path, kFlags, "open", kMode);
  }
  BELAY_RETURN_IF_ERROR(file.status());
  if (!is_new) {
    BELAY_RETURN_IF_ERROR(CheckIsOurs(file->fd(), path, beginning));
  }
  TakeRightsOfDirectory(file->fd(), path);
  return FileLock(std::move(path), *std::move(file), is_new);
}

bool FileLock::HasItsName() const { return HasName(file_.fd(), path_); }

StatusOr<LockResult> TryOpenFileLock(int fd, short type,
                                     const std::string& path) {
  BELAY_RETURN_IF_ERROR(fault::Point("lock"));
  if (SetOpenFileLock(fd, type) == 0) return LockResult::kTaken;
  switch (errno) {
    case EAGAIN:
    case EACCES:
      return LockResult::kHeld;
    case ENOLCK:
    case ENOSYS:
    case EINVAL:
    case EOPNOTSUPP:
      return LockResult::kUnsupported;
    default:
      return ErrnoStatus(errno, "lock", path);
  }
}

StatusOr<FileLock::Result> FileLock::Try() {
  return TryOpenFileLock(file_.fd(), F_WRLCK, path_);
}

void FileLock::Free() { SetOpenFileLock(file_.fd(), F_UNLCK); }

StatusOr<std::string> FileLock::Read(size_t max_bytes) const {
  BELAY_RETURN_IF_ERROR(fault::Point("read"));
  std::string content(max_bytes, '\0');
  const ssize_t count =
      Retry([&] { return ::pread(file_.fd(), content.data(), max_bytes, 0); });
  if (count < 0) return ErrnoStatus(errno, "read", path_);
  content.resize(static_cast<size_t>(count));
  return content;
}

Status FileLock::Write(std::string_view content) {
  BELAY_RETURN_IF_ERROR(fault::Point("write"));
  const auto size = static_cast<off_t>(content.size());
  const ssize_t count = Retry(
      [&] { return ::pwrite(file_.fd(), content.data(), content.size(), 0); });
  if (count < 0) return ErrnoStatus(errno, "write", path_);
  if (count != size) return ErrnoStatus(ENOSPC, "write", path_);
  if (Retry([&] { return ::ftruncate(file_.fd(), size); }) != 0 ||
      Retry([&] { return ::fsync(file_.fd()); }) != 0) {
    return ErrnoStatus(errno, "write", path_);
  }
  return absl::OkStatus();
}

// --- Pins ---

namespace {

StatusOr<HeldFile> OpenHeldIndex(std::string_view operation,
                                 const std::string& index, int flags) {
  BELAY_RETURN_IF_ERROR(fault::Point("open"));
  StatusOr<Descriptor> file = OpenRegular(index, flags, operation);
  if (absl::IsNotFound(file.status())) return HeldFile();
  BELAY_RETURN_IF_ERROR(file.status());
  return HeldFile(*std::move(file));
}

// Returns true if any process has locked the file. Takes no lock itself.
bool IsLocked(int fd) {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return ::fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

Status IsPinned(std::string_view operation, const std::string& path) {
  return absl::FailedPreconditionError(
      Cat(operation, " \"", path,
          "\": a program that reads it has pinned it; the step stays"));
}

}  // namespace

StatusOr<HeldFile> PinStep(const std::string& path) {
  const std::string index = JoinPath(path, IndexName());
  BELAY_ASSIGN_OR_RETURN(HeldFile file, OpenHeldIndex("pin", index, O_RDONLY));
  if (file.fd() < 0) return file;
  BELAY_ASSIGN_OR_RETURN(const LockResult result,
                         TryOpenFileLock(file.fd(), F_RDLCK, index));
  if (result == LockResult::kUnsupported) {
    return absl::UnimplementedError(
        Cat("pin \"", path, "\": the file system has no locks"));
  }
  // It may have lost its name between being opened and being locked.
  const bool is_pinned =
      result == LockResult::kTaken && HasName(file.fd(), index);
  return is_pinned ? std::move(file) : HeldFile();
}

StatusOr<HeldFile> LockAgainstPins(std::string_view operation,
                                   const std::string& path) {
  const std::string index = JoinPath(path, IndexName());
  StatusOr<HeldFile> file = OpenHeldIndex(operation, index, O_RDWR);
  if (absl::IsPermissionDenied(file.status())) {  // protected by its owner
    BELAY_ASSIGN_OR_RETURN(file, OpenHeldIndex(operation, index, O_RDONLY));
    if (IsLocked(file->fd())) return IsPinned(operation, path);
    return file;
  }
  BELAY_RETURN_IF_ERROR(file.status());
  if (file->fd() < 0) return file;
  BELAY_ASSIGN_OR_RETURN(const LockResult result,
                         TryOpenFileLock(file->fd(), F_WRLCK, index));
  if (result == LockResult::kHeld) return IsPinned(operation, path);
  return file;
}

}  // namespace belay
