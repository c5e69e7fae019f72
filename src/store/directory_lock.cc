#include "store/directory_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/errno_status.h"
#include "base/fault.h"
#include "base/status_macros.h"

namespace belay {
namespace {

// Whether the system says that it cannot lock a directory here.
bool IsUnsupported(int error) {
  return error == ENOLCK || error == ENOSYS || error == EINVAL ||
         error == EOPNOTSUPP || error == EBADF;  // NFS wants it to be writable
}

}  // namespace

StatusOr<DirectoryLock> DirectoryLock::Take(const std::string& path,
                                            double seconds) {
  BELAY_RETURN_IF_ERROR(fault::Point("lock"));
  DirectoryLock lock(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!lock.is_held()) return ErrnoStatus(errno, "lock", path);
  const absl::Time until = absl::Now() + absl::Seconds(seconds);
  while (::flock(lock.fd_, LOCK_EX | LOCK_NB) != 0) {
    if (IsUnsupported(errno)) return DirectoryLock();
    if (errno != EWOULDBLOCK && errno != EINTR) {
      return ErrnoStatus(errno, "lock", path);
    }
    if (absl::Now() >= until) {
      return absl::FailedPreconditionError(absl::StrFormat(
          "lock \"%s\": another process holds the directory (waited %g s); try "
          "again when it has ended",
          path, seconds));
    }
    absl::SleepFor(absl::Milliseconds(5));
  }
  return lock;
}

DirectoryLock::DirectoryLock(DirectoryLock&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)) {}

DirectoryLock& DirectoryLock::operator=(DirectoryLock&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

DirectoryLock::~DirectoryLock() {
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace belay
