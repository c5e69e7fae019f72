#include "io/files/file_pages.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "io/files/file_lock.h"

namespace belay {

namespace {

// How often to let others have this core and ask again.
constexpr int kMostRepeats = 3;

bool IsRefused(int fd) {
  return SetOpenFileLock(fd, F_WRLCK) != 0 &&
         (errno == EAGAIN || errno == EACCES);
}

// The one that has the turn may be waiting for this core.
bool IsRefusedRepeatedly(int fd) {
  for (int repeats = 0; IsRefused(fd); ++repeats) {
    if (repeats == kMostRepeats) return true;
    ::sched_yield();
  }
  return false;
}

}  // namespace

WriteTurn::WriteTurn(int fd, bool is_crowded)
    : fd_(fd),
      is_taken_(is_crowded ? IsRefusedRepeatedly(fd) : IsRefused(fd)) {}

WriteTurn::~WriteTurn() {
  if (!is_taken_) SetOpenFileLock(fd_, F_UNLCK);
}

bool IsFileSizeLimited() {
  struct rlimit limit;
  return ::getrlimit(RLIMIT_FSIZE, &limit) != 0 ||
         limit.rlim_cur != RLIM_INFINITY;
}

bool FillPages(
    [[maybe_unused]] int fd, [[maybe_unused]] int64_t offset,
    [[maybe_unused]] std::span<const std::span<const std::byte>> parts) {
#ifdef MADV_POPULATE_WRITE
  const int64_t before = offset % ::sysconf(_SC_PAGESIZE);
  size_t size = static_cast<size_t>(before);
  for (std::span<const std::byte> part : parts) size += part.size();
  struct stat stat;
  if (::fstat(fd, &stat) != 0 ||
      stat.st_size < offset - before + static_cast<int64_t>(size)) {
    return false;
  }
  void* const mapped = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED,
                              fd, offset - before);
  if (mapped == MAP_FAILED) return false;
  // Without this, touching a page for which there is no space would end the
  // process.
  const bool filled = ::madvise(mapped, size, MADV_POPULATE_WRITE) == 0;
  if (filled) {
    auto* to = static_cast<std::byte*>(mapped) + before;
    for (std::span<const std::byte> part : parts) {
      std::memcpy(to, part.data(), part.size());
      to += part.size();
    }
  }
  ::munmap(mapped, size);
  return filled;
#else
  return false;
#endif
}

}  // namespace belay
