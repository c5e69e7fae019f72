#include "storage/pins.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

#include "core/fault.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "format/paths.h"
#include "storage/file_lock.h"
#include "storage/open_file.h"

namespace belay {
namespace {

// Opens what the owner may have protected against writing.
StatusOr<HeldFile> OpenHeldIndex(std::string_view operation,
                                 const std::string& index, int flags) {
  BELAY_RETURN_IF_ERROR(fault::Point("open"));
  const StatusOr<int> fd = OpenRegular(index, flags, operation);
  if (absl::IsNotFound(fd.status())) return HeldFile();
  BELAY_RETURN_IF_ERROR(fd.status());
  return HeldFile(*fd);
}

// Whether somebody has a lock on the file, without asking for one.
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

HeldFile::HeldFile(HeldFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)) {}

HeldFile& HeldFile::operator=(HeldFile&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

HeldFile::~HeldFile() {
  if (fd_ >= 0) ::close(fd_);
}

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
  if (absl::IsPermissionDenied(file.status())) {
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
