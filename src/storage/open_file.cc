#include "storage/open_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "core/catch_exceptions.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "storage/posix_file.h"

namespace belay {
namespace {

const char* KindName(mode_t mode) {
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

Descriptor Open(const std::string& path, int flags, mode_t mode) {
  return Descriptor(
      Retry([&] { return ::open(path.c_str(), flags | O_CLOEXEC, mode); }));
}

}  // namespace

StatusOr<Descriptor> OpenRegular(const std::string& path, int flags,
                                 std::string_view operation, mode_t mode,
                                 Links links) {
  if (!AreFollowed(links)) flags |= O_NOFOLLOW;
  // Without waiting for the other end of a pipe, but for the end of a lease.
  Descriptor file = Open(path, flags | O_NONBLOCK, mode);
  struct stat before;
  if (file.fd() < 0 && errno == EWOULDBLOCK &&
      ::stat(path.c_str(), &before) == 0 && S_ISREG(before.st_mode)) {
    file = Open(path, flags, mode);
  }
  if (file.fd() < 0 && errno == ELOOP && ::lstat(path.c_str(), &before) == 0 &&
      S_ISLNK(before.st_mode)) {
    return IsSymbolicLink(operation, path);
  }
  const auto not_a_file = [&](mode_t found) {
    return absl::InvalidArgumentError(
        Cat(operation, " \"", path, "\": not a file (need a regular file, ",
            "found ", KindName(found), ")"));
  };
  if (file.fd() < 0 && errno == ENXIO && ::lstat(path.c_str(), &before) == 0 &&
      S_ISSOCK(before.st_mode)) {
    return not_a_file(before.st_mode);
  }
  if (file.fd() < 0) return ErrnoStatus(errno, operation, path);
  ::fcntl(file.fd(), F_SETFL, ::fcntl(file.fd(), F_GETFL) & ~O_NONBLOCK);
  struct stat stat;
  if (::fstat(file.fd(), &stat) != 0) {
    return ErrnoStatus(errno, operation, path);
  }
  if (S_ISREG(stat.st_mode)) return file;
  return not_a_file(stat.st_mode);
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
