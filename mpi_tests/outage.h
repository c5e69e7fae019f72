// A file system that goes away: from some call on, each call that reaches what
// is below a path fails, as when a network or a server is lost. Included by one
// file of a program, whose libraries' calls then land here.

#ifndef BELAY_MPI_TESTS_OUTAGE_H_
#define BELAY_MPI_TESTS_OUTAGE_H_

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace belay::testing {

struct Outage {
  std::string below;  // empty: nothing is lost
  int64_t after = 0;  // so many calls are let through
  int error = ENOTCONN;
  int64_t calls = 0;  // that reached what is below
};

inline Outage outage;

// Counts a call, and returns whether it fails.
inline bool IsLost(std::string_view path) {
  if (outage.below.empty() || !path.starts_with(outage.below)) return false;
  // A save in the background has a thread of its own.
  std::atomic_ref<int64_t> calls(outage.calls);
  if (++calls <= outage.after) return false;
  errno = outage.error;
  return true;
}

inline bool IsLost(int fd) {
  if (outage.below.empty()) return false;
  char path[PATH_MAX];
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  const ssize_t size = readlink(link.c_str(), path, sizeof(path));
  return size > 0 && IsLost(std::string_view(path, static_cast<size_t>(size)));
}

template <typename Function>
Function* Next(const char* name, Function* /*type*/) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

}  // namespace belay::testing

#define BELAY_LOSE(result, failed, name, parameters, arguments, at) \
  extern "C" result name parameters {                               \
    static auto* const next = belay::testing::Next(#name, &name);   \
    return belay::testing::IsLost(at) ? failed : next arguments;    \
  }

extern "C" int open(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const auto mode = va_arg(more, mode_t);
  va_end(more);
  static auto* const next = belay::testing::Next("open", &open);
  return belay::testing::IsLost(path) ? -1 : next(path, flags, mode);
}

BELAY_LOSE(int, -1, stat,
           (const char* __restrict path, struct stat* __restrict out) noexcept,
           (path, out), path)
BELAY_LOSE(int, -1, lstat,
           (const char* __restrict path, struct stat* __restrict out) noexcept,
           (path, out), path)
BELAY_LOSE(int, -1, fstat, (int fd, struct stat* out) noexcept, (fd, out), fd)
BELAY_LOSE(int, -1, statvfs,
           (const char* __restrict path,
            struct statvfs* __restrict out) noexcept,
           (path, out), path)
BELAY_LOSE(int, -1, mkdir, (const char* path, mode_t mode) noexcept,
           (path, mode), path)
BELAY_LOSE(int, -1, rename, (const char* from, const char* to) noexcept,
           (from, to), from)
BELAY_LOSE(int, -1, unlink, (const char* path) noexcept, (path), path)
BELAY_LOSE(int, -1, rmdir, (const char* path) noexcept, (path), path)
BELAY_LOSE(int, -1, remove, (const char* path) noexcept, (path), path)
BELAY_LOSE(DIR*, nullptr, opendir, (const char* path), (path), path)
BELAY_LOSE(int, -1, fsync, (int fd), (fd), fd)
BELAY_LOSE(int, -1, ftruncate, (int fd, off_t bytes) noexcept, (fd, bytes), fd)
BELAY_LOSE(int, -1, fallocate, (int fd, int mode, off_t at, off_t bytes),
           (fd, mode, at, bytes), fd)
BELAY_LOSE(ssize_t, -1, pread, (int fd, void* to, size_t bytes, off_t at),
           (fd, to, bytes, at), fd)
BELAY_LOSE(ssize_t, -1, pwrite,
           (int fd, const void* from, size_t bytes, off_t at),
           (fd, from, bytes, at), fd)
BELAY_LOSE(ssize_t, -1, pwritev,
           (int fd, const struct iovec* parts, int count, off_t at),
           (fd, parts, count, at), fd)

#undef BELAY_LOSE

#endif  // BELAY_MPI_TESTS_OUTAGE_H_
