#include "storage/mapped_file.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_format.h"
#include "core/catch_exceptions.h"
#include "core/errno_status.h"
#include "core/fault.h"
#include "core/flat_buffer.h"
#include "core/status_macros.h"
#include "format/paths.h"
#include "storage/file_lock.h"
#include "storage/open_file.h"

namespace belay {
namespace {

// Closes the file at the end: a mapping does not need it.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { ::close(fd_); }
  int get() const { return fd_; }

 private:
  int fd_;
};

}  // namespace

StatusOr<MappedFile> MappedFile::Open(const std::string& path, Links links) {
  BELAY_RETURN_IF_ERROR(fault::Point("open"));
  BELAY_ASSIGN_OR_RETURN(const int opened,
                         OpenRegular(path, O_RDONLY, "open", 0, links));
  const Descriptor file(opened);
  BELAY_RETURN_IF_ERROR(fault::Point("map"));
  struct stat stat;
  if (::fstat(file.get(), &stat) != 0) return ErrnoStatus(errno, "map", path);
  const int64_t modified_ns =
      int64_t{stat.st_mtim.tv_sec} * 1000000000 + stat.st_mtim.tv_nsec;
  if (stat.st_size == 0) return MappedFile(nullptr, 0, modified_ns);
  void* const data = ::mmap(nullptr, static_cast<size_t>(stat.st_size),
                            PROT_READ, MAP_SHARED, file.get(), 0);
  if (data == MAP_FAILED) return ErrnoStatus(errno, "map", path);
  return MappedFile(static_cast<char*>(data), stat.st_size, modified_ns);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      modified_ns_(std::exchange(other.modified_ns_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(modified_ns_, other.modified_ns_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(data_, static_cast<size_t>(size_));
}

// --- File pages ---

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

// --- Scratch memory ---

namespace {

// Opens a file that no directory names.
StatusOr<int> OpenNameless(const std::string& dir) {
  const int fd = ::open(dir.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd >= 0) return fd;
  // Some file systems only have files with names.
  const bool has_none = errno == EOPNOTSUPP || errno == EISDIR;
  if (!has_none) return ErrnoStatus(errno, "create a scratch file in", dir);
  std::string name = JoinPath(dir, ".belay-scratch-XXXXXX");
  const int named = ::mkostemp(name.data(), O_CLOEXEC);
  if (named < 0) return ErrnoStatus(errno, "create a scratch file in", dir);
  ::unlink(name.c_str());
  return named;
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
  BELAY_ASSIGN_OR_RETURN(const int fd, OpenNameless(dir));
  // Room that is missing later would be a signal instead of an error.
  const int error = ::posix_fallocate(fd, 0, bytes);
  void* const data = error != 0
                         ? MAP_FAILED
                         : ::mmap(nullptr, static_cast<size_t>(bytes),
                                  PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  const int reason = error != 0 ? error : errno;
  ::close(fd);
  if (data == MAP_FAILED) {
    const Status status = ErrnoStatus(reason, "make a scratch file in", dir);
    return Status(status.code(), absl::StrFormat("%s (need %d bytes)",
                                                 status.message(), bytes));
  }
  scratch.mapped_ = static_cast<std::byte*>(data);
  scratch.mapped_bytes_ = bytes;
  return scratch;
}

ScratchMemory::ScratchMemory(ScratchMemory&& other) noexcept
    : memory_(std::move(other.memory_)),
      mapped_(std::exchange(other.mapped_, nullptr)),
      mapped_bytes_(std::exchange(other.mapped_bytes_, 0)) {}

ScratchMemory& ScratchMemory::operator=(ScratchMemory&& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(mapped_, other.mapped_);
  std::swap(mapped_bytes_, other.mapped_bytes_);
  return *this;
}

ScratchMemory::~ScratchMemory() {
  if (mapped_ != nullptr) {
    ::munmap(mapped_, static_cast<size_t>(mapped_bytes_));
  }
}

}  // namespace belay
