// The system calls by which a program changes what is below a directory:
// counted, and something may happen before one of them. Included by one file
// of a program, whose libraries' calls then land here.

#ifndef BELAY_MPI_TESTS_FILE_CALLS_H_
#define BELAY_MPI_TESTS_FILE_CALLS_H_

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdarg>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace belay::testing {

struct FileCalls {
  std::string below;  // empty: no call counts
  // Called before the call that takes `left` to 0, or `renames_left`, which
  // counts those that give a step its name.
  std::function<void()> act;
  std::atomic<int64_t> left{0};
  std::atomic<int64_t> renames_left{0};
  bool syncs = true;  // false: what asks the disk to sync does nothing
  std::atomic<int64_t> calls{0};
  std::atomic<int64_t> thread_calls{0};  // of these, not by the first thread
  // The descriptors of what is below.
  std::array<std::atomic<bool>, 1024> is_open{};

  bool Has(std::string_view path) const {
    return !below.empty() && path.starts_with(below);
  }
  bool Has(int fd) const {
    return fd >= 0 && fd < static_cast<int>(is_open.size()) && is_open[fd];
  }
  void Count() {
    ++calls;
    if (gettid() != getpid()) ++thread_calls;
    if (left > 0 && left.fetch_sub(1) == 1) act();
  }
  template <typename Place>
  void Count(Place place) {
    if (Has(place)) Count();
  }
  void CountRename(std::string_view to) {
    if (!Has(to)) return;
    const std::string_view name = to.substr(to.find_last_of('/') + 1);
    const bool is_step =
        name.starts_with("step_") && name.find('.') == std::string_view::npos;
    if (is_step && renames_left > 0 && renames_left.fetch_sub(1) == 1) act();
    Count();
  }
};

inline FileCalls file_calls;

}  // namespace belay::testing

extern "C" {
int open(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const auto mode = va_arg(more, mode_t);
  va_end(more);
  auto& calls = belay::testing::file_calls;
  calls.Count(std::string_view(path));
  const auto fd =
      static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, flags, mode));
  if (fd >= 0 && fd < static_cast<int>(calls.is_open.size())) {
    calls.is_open[fd] = calls.Has(std::string_view(path));
  }
  return fd;
}
int close(int fd) {
  auto& calls = belay::testing::file_calls;
  calls.Count(fd);
  if (calls.Has(fd)) calls.is_open[fd] = false;
  return static_cast<int>(syscall(SYS_close, fd));
}
int mkdir(const char* path, mode_t mode) noexcept {
  belay::testing::file_calls.Count(std::string_view(path));
  return static_cast<int>(syscall(SYS_mkdirat, AT_FDCWD, path, mode));
}
int fallocate(int fd, int mode, off_t offset, off_t bytes) {
  belay::testing::file_calls.Count(fd);
  return static_cast<int>(syscall(SYS_fallocate, fd, mode, offset, bytes));
}
int ftruncate(int fd, off_t bytes) noexcept {
  belay::testing::file_calls.Count(fd);
  return static_cast<int>(syscall(SYS_ftruncate, fd, bytes));
}
ssize_t pwrite(int fd, const void* data, size_t bytes, off_t offset) {
  belay::testing::file_calls.Count(fd);
  return syscall(SYS_pwrite64, fd, data, bytes, offset);
}
ssize_t pwrite64(int fd, const void* data, size_t bytes, off_t offset) {
  belay::testing::file_calls.Count(fd);
  return syscall(SYS_pwrite64, fd, data, bytes, offset);
}
ssize_t pwritev(int fd, const iovec* parts, int count, off_t offset) {
  belay::testing::file_calls.Count(fd);
  return syscall(SYS_pwritev, fd, parts, count, offset, 0);
}
ssize_t pwritev64(int fd, const iovec* parts, int count, off_t offset) {
  belay::testing::file_calls.Count(fd);
  return syscall(SYS_pwritev, fd, parts, count, offset, 0);
}
int sync_file_range(int fd, off_t offset, off_t bytes, unsigned flags) {
  auto& calls = belay::testing::file_calls;
  calls.Count(fd);
  if (!calls.syncs) return 0;
  return static_cast<int>(
      syscall(SYS_sync_file_range, fd, offset, bytes, flags));
}
int fsync(int fd) {
  auto& calls = belay::testing::file_calls;
  calls.Count(fd);
  return calls.syncs ? static_cast<int>(syscall(SYS_fsync, fd)) : 0;
}
int rename(const char* from, const char* to) noexcept {
  belay::testing::file_calls.CountRename(to);
  return static_cast<int>(
      syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}
int renameat2(int from_dir, const char* from, int to_dir, const char* to,
              unsigned flags) noexcept {
  belay::testing::file_calls.CountRename(to);
  return static_cast<int>(
      syscall(SYS_renameat2, from_dir, from, to_dir, to, flags));
}
int unlink(const char* path) noexcept {
  belay::testing::file_calls.Count(std::string_view(path));
  return static_cast<int>(syscall(SYS_unlinkat, AT_FDCWD, path, 0));
}
int unlinkat(int dir, const char* path, int flags) noexcept {
  auto& calls = belay::testing::file_calls;
  if (!calls.below.empty()) calls.Count();  // those who remove a directory
  return static_cast<int>(syscall(SYS_unlinkat, dir, path, flags));
}
}

#endif  // BELAY_MPI_TESTS_FILE_CALLS_H_
