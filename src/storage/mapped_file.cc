#include "storage/mapped_file.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_format.h"
#include "core/catch_exceptions.h"
#include "core/errno_status.h"
#include "core/fault.h"
#include "core/flat_buffer.h"
#include "core/status_macros.h"
#include "format/paths.h"
#include "storage/file_lock.h"

namespace belay {
Mapping::~Mapping() {
  if (data_ != nullptr) ::munmap(data_, static_cast<size_t>(size_));
}

StatusOr<MappedFile> MappedFile::Open(const std::string& path, Links links) {
  BELAY_RETURN_IF_ERROR(fault::Point("open"));
  BELAY_ASSIGN_OR_RETURN(const Descriptor file,
                         OpenRegular(path, O_RDONLY, "open", 0, links));
  BELAY_RETURN_IF_ERROR(fault::Point("map"));
  struct stat stat;
  if (::fstat(file.fd(), &stat) != 0) return ErrnoStatus(errno, "map", path);
  const int64_t modified_ns =
      int64_t{stat.st_mtim.tv_sec} * 1000000000 + stat.st_mtim.tv_nsec;
  if (stat.st_size == 0) return MappedFile({}, modified_ns);
  void* const data = ::mmap(nullptr, static_cast<size_t>(stat.st_size),
                            PROT_READ, MAP_SHARED, file.fd(), 0);
  if (data == MAP_FAILED) return ErrnoStatus(errno, "map", path);
  return MappedFile(Mapping(data, stat.st_size), modified_ns);
}

// --- File pages ---

namespace {

constexpr int kMaxRepeats = 3;

bool IsRefused(int fd) {
  return SetOpenFileLock(fd, F_WRLCK) != 0 &&
         (errno == EAGAIN || errno == EACCES);
}

// Yields between tries: whoever has the turn may be waiting for this core.
bool IsRefusedRepeatedly(int fd) {
  for (int repeats = 0; IsRefused(fd); ++repeats) {
    if (repeats == kMaxRepeats) return true;
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

// --- Scratch memory ---

namespace {

// Opens a file that has no name in any directory.
StatusOr<Descriptor> OpenNameless(const std::string& dir) {
  const int fd = ::open(dir.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd >= 0) return Descriptor(fd);
  // Some file systems support only files with names.
  const bool has_none = errno == EOPNOTSUPP || errno == EISDIR;
  if (!has_none) return ErrnoStatus(errno, "create a scratch file in", dir);
  std::string name = JoinPath(dir, ".belay-scratch-XXXXXX");
  const int named = ::mkostemp(name.data(), O_CLOEXEC);
  if (named < 0) return ErrnoStatus(errno, "create a scratch file in", dir);
  ::unlink(name.c_str());
  return Descriptor(named);
}

}  // namespace

StatusOr<ScratchMemory> ScratchMemory::Take(int64_t bytes,
                                            const std::string& dir) {
  ScratchMemory scratch;
  if (bytes == 0) return scratch;
  if (dir.empty()) {
    BELAY_RETURN_IF_ERROR(CatchBadAlloc(
        absl::StrFormat("the part of this rank (need %d bytes)", bytes), [&] {
          scratch.memory_ = NewBytes(bytes);
          return absl::OkStatus();
        }));
    return scratch;
  }
  BELAY_RETURN_IF_ERROR(fault::Point("scratch"));
  BELAY_ASSIGN_OR_RETURN(const Descriptor file, OpenNameless(dir));
  // If space ran out later, the result would be a signal instead of an error.
  const int error = ::posix_fallocate(file.fd(), 0, bytes);
  void* const data =
      error != 0 ? MAP_FAILED
                 : ::mmap(nullptr, static_cast<size_t>(bytes),
                          PROT_READ | PROT_WRITE, MAP_SHARED, file.fd(), 0);
  const int reason = error != 0 ? error : errno;
  if (data == MAP_FAILED) {
    const Status status = ErrnoStatus(reason, "make a scratch file in", dir);
    return Status(status.code(), absl::StrFormat("%s (need %d bytes)",
                                                 status.message(), bytes));
  }
  scratch.mapped_ = Mapping(data, bytes);
  return scratch;
}

}  // namespace belay
