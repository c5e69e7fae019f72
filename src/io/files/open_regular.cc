#include "io/files/open_regular.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/errno_status.h"
#include "base/text.h"
#include "io/files/retry.h"

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

int Open(const std::string& path, int flags, mode_t mode) {
  return Retry([&] { return ::open(path.c_str(), flags | O_CLOEXEC, mode); });
}

}  // namespace

StatusOr<int> OpenRegular(const std::string& path, int flags,
                          std::string_view operation, mode_t mode,
                          Links links) {
  if (!AreFollowed(links)) flags |= O_NOFOLLOW;
  // What may be a pipe is not waited for; a file that somebody has a lease on
  // is.
  int fd = Open(path, flags | O_NONBLOCK, mode);
  struct stat before;
  if (fd < 0 && errno == EWOULDBLOCK && ::stat(path.c_str(), &before) == 0 &&
      S_ISREG(before.st_mode)) {
    fd = Open(path, flags, mode);
  }
  if (fd < 0 && errno == ELOOP && ::lstat(path.c_str(), &before) == 0 &&
      S_ISLNK(before.st_mode)) {
    return IsSymbolicLink(operation, path);
  }
  if (fd < 0) return ErrnoStatus(errno, operation, path);
  ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) & ~O_NONBLOCK);
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

bool HasName(int fd, const std::string& path) {
  struct stat opened = {}, named = {};
  return ::fstat(fd, &opened) == 0 && ::stat(path.c_str(), &named) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

}  // namespace belay
