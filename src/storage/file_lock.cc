#include "storage/file_lock.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "core/errno_status.h"
#include "core/fault.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "format/paths.h"
#include "storage/open_file.h"
#include "storage/posix_file.h"

namespace belay {

int SetOpenFileLock(int fd, short type) {
  struct flock lock = {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  return Retry([&] { return ::fcntl(fd, F_OFD_SETLK, &lock); });
}

namespace {

// Lets those read and write a file that may write to its directory. Where that
// fails, it stays as it is: the file system may have no modes.
void TakeRightsOfDirectory(int fd, const std::string& path) {
  struct stat file = {}, directory = {};
  if (::fstat(fd, &file) != 0 ||
      ::stat(ParentOf(path).c_str(), &directory) != 0) {
    return;
  }
  const mode_t writers = directory.st_mode & (S_IWUSR | S_IWGRP | S_IWOTH);
  const mode_t mode = S_IRUSR | S_IWUSR | writers | (writers << 1);
  if (file.st_uid != ::geteuid() || (file.st_mode & 0777) == mode) return;
  // The group is the directory's, whose writers are meant. Where a list of
  // users says who may write, the mode only bounds it.
  const bool has_list =
      ::fgetxattr(fd, "system.posix_acl_access", nullptr, 0) > 0;
  if (file.st_gid != directory.st_gid && !has_list &&
      ::fchown(fd, static_cast<uid_t>(-1), directory.st_gid) != 0) {
    return;
  }
  if (::fchmod(fd, mode) != 0) errno = 0;
}

}  // namespace

FileLock::FileLock(std::string path, int fd, bool is_new)
    : path_(std::move(path)), fd_(fd), is_new_(is_new) {}

FileLock::FileLock(FileLock&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      is_new_(other.is_new_) {}

FileLock& FileLock::operator=(FileLock&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  std::swap(is_new_, other.is_new_);
  return *this;
}

FileLock::~FileLock() {
  if (fd_ >= 0) ::close(fd_);
}

namespace {

// A file that was there is only used if nobody but belay can have made it: it
// has this name alone, and holds nothing else than what belay writes. Its owner
// may not even know that somebody has linked it here.
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
  // Who can write to the directory must not make this write elsewhere, whatever
  // the environment says.
  constexpr int kFlags = O_RDWR | O_CREAT | O_NOFOLLOW;
  constexpr mode_t kMode = S_IRUSR | S_IWUSR;
  StatusOr<int> fd = OpenRegular(path, kFlags | O_EXCL, "open", kMode);
  const bool is_new = fd.ok();
  if (absl::IsAlreadyExists(fd.status())) {
    fd = OpenRegular(path, kFlags, "open", kMode);
  }
  BELAY_RETURN_IF_ERROR(fd.status());
  FileLock lock(std::move(path), *fd, is_new);
  if (!is_new) {
    BELAY_RETURN_IF_ERROR(CheckIsOurs(*fd, lock.path_, beginning));
  }
  TakeRightsOfDirectory(*fd, lock.path_);
  return lock;
}

bool FileLock::HasItsName() const { return HasName(fd_, path_); }

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
  return TryOpenFileLock(fd_, F_WRLCK, path_);
}

void FileLock::Free() { SetOpenFileLock(fd_, F_UNLCK); }

StatusOr<std::string> FileLock::Read(size_t max_bytes) const {
  BELAY_RETURN_IF_ERROR(fault::Point("read"));
  std::string content(max_bytes, '\0');
  const ssize_t count =
      Retry([&] { return ::pread(fd_, content.data(), max_bytes, 0); });
  if (count < 0) return ErrnoStatus(errno, "read", path_);
  content.resize(static_cast<size_t>(count));
  return content;
}

Status FileLock::Write(std::string_view content) {
  BELAY_RETURN_IF_ERROR(fault::Point("write"));
  const auto size = static_cast<off_t>(content.size());
  const ssize_t count =
      Retry([&] { return ::pwrite(fd_, content.data(), content.size(), 0); });
  if (count < 0) return ErrnoStatus(errno, "write", path_);
  if (count != size) return ErrnoStatus(ENOSPC, "write", path_);
  if (Retry([&] { return ::ftruncate(fd_, size); }) != 0 ||
      Retry([&] { return ::fsync(fd_); }) != 0) {
    return ErrnoStatus(errno, "write", path_);
  }
  return absl::OkStatus();
}

}  // namespace belay
