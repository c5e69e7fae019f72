#include "io/files/scratch_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/catch_bad_alloc.h"
#include "base/errno_status.h"
#include "base/fault.h"
#include "base/status_macros.h"
#include "bytes/huge_pages.h"
#include "format/paths.h"

namespace belay {
namespace {

// Opens a file that no directory names. Local.
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
