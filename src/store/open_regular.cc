#include "store/open_regular.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/errno_status.h"
#include "base/text.h"

namespace belay {
namespace {

const char* KindOf(mode_t mode) {
  switch (mode & S_IFMT) {
    case S_IFDIR:
      return "a directory";
    case S_IFIFO:
      return "a pipe";
    case S_IFSOCK:
      return "a socket";
    case S_IFCHR:
    case S_IFBLK:
      return "a device";
    default:
      return "something else";
  }
}

}  // namespace

StatusOr<int> OpenRegular(const std::string& path, int flags,
                          std::string_view operation) {
  int fd = -1;
  do {
    // On a regular file O_NONBLOCK has no effect.
    fd = ::open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK, 0666);
  } while (fd < 0 && errno == EINTR);
  if (fd < 0) return ErrnoStatus(errno, operation, path);
  struct stat stat;
  Status status;
  if (::fstat(fd, &stat) != 0) {
    status = ErrnoStatus(errno, operation, path);
  } else if (!S_ISREG(stat.st_mode)) {
    status = absl::InvalidArgumentError(
        Cat(operation, " \"", path, "\": not a file (need a regular file, ",
            "found ", KindOf(stat.st_mode), ")"));
  }
  if (status.ok()) return fd;
  ::close(fd);
  return status;
}

}  // namespace belay
