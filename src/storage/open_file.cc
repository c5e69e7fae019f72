#include "storage/open_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "core/catch_exceptions.h"
#include "core/errno_status.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "storage/posix_file.h"

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

// --- Whole file ---

StatusOr<std::string> ReadWhole(const std::string& path, int64_t most) {
  BELAY_ASSIGN_OR_RETURN(PosixFile file,
                         PosixFile::Open(path, PosixFile::Mode::kRead));
  BELAY_ASSIGN_OR_RETURN(const FileStat stat, file.Stat());
  if (stat.size > most) {
    return absl::DataLossError(Cat("read \"", path,
                                   "\": too long (need at most ", most,
                                   " bytes, found ", stat.size, ")"));
  }
  std::string content;
  BELAY_RETURN_IF_ERROR(
      CatchBadAlloc(Cat(stat.size, " bytes of \"", path, "\""), [&] {
        content.resize(static_cast<size_t>(stat.size));
        return absl::OkStatus();
      }));
  BELAY_RETURN_IF_ERROR(file.PreadAll(0, content.data(), stat.size));
  return content;
}

Status WriteWhole(const std::string& path, std::string_view content,
                  bool durable) {
  BELAY_ASSIGN_OR_RETURN(PosixFile file,
                         PosixFile::Open(path, PosixFile::Mode::kCreate));
  BELAY_RETURN_IF_ERROR(
      file.PwriteAll(0, content.data(), static_cast<int64_t>(content.size())));
  if (durable) BELAY_RETURN_IF_ERROR(file.Sync());
  return file.Close();
}

}  // namespace belay
