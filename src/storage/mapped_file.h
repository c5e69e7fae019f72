// Mapped files: for reading, for filling pages, and as scratch memory.

#ifndef BELAY_STORAGE_MAPPED_FILE_H_
#define BELAY_STORAGE_MAPPED_FILE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "belay/status.h"
#include "core/process.h"

namespace belay {

// Owns memory that mmap returned. Move only.
class Mapping {
 public:
  Mapping() = default;
  Mapping(void* data, int64_t size) : data_(data), size_(size) {}
  Mapping(Mapping&& other) noexcept { *this = std::move(other); }
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~Mapping();

  // Null if nothing is mapped.
  void* data() const { return data_; }
  int64_t size() const { return size_; }

 private:
  void* data_ = nullptr;
  int64_t size_ = 0;
};

// A file mapped for reading. Move only. The system reclaims pages when memory
// is short, so the file may be larger than memory. A read error, or access
// beyond the end of a file that was shortened, raises SIGBUS, which ends the
// process.
class MappedFile {
 public:
  // Maps a whole file for reading.
  // Errors: those of PosixFile; ResourceExhausted - the address space of this
  //   process has no room for it.
  static StatusOr<MappedFile> Open(const std::string& path,
                                   Links links = Links::kRefused);

  // Maps nothing.
  MappedFile() = default;

  // The content, which must not be modified; null if nothing is mapped.
  char* data() const { return static_cast<char*>(mapping_.data()); }
  int64_t size() const { return mapping_.size(); }
  // When the file was last written to, in ns since 1970.
  int64_t modified_ns() const { return modified_ns_; }

 private:
  MappedFile(Mapping mapping, int64_t modified_ns)
      : mapping_(std::move(mapping)), modified_ns_(modified_ns) {}

  Mapping mapping_;
  int64_t modified_ns_ = 0;
};

// Files in memory that several processes write concurrently.
//
// The kernel lets only one process at a time write to a file. In memory, most
// of that time goes to finding and filling pages while the other processes
// wait. Access through a mapping finds the pages without that lock, at about
// twice the cost. So the process that gets the turn calls write, while the
// others fill pages.

// For fewer bytes, a mapping is not worthwhile.
inline constexpr int64_t kLeastMappedBytes = int64_t{64} << 10;

// The turn to write to a file. If it was free, it is held until destruction.
// When its holder ends, including all processes forked from it, the kernel
// frees it. It excludes only those that ask for it, and they need not wait.
class WriteTurn {
 public:
  // Takes the turn if it is free, without waiting. With `is_crowded`, for more
  // processes than cores, yields the core a few times before it gives up. `fd`
  // must be open for writing and outlive this object.
  explicit WriteTurn(int fd, bool is_crowded = false);
  WriteTurn(const WriteTurn&) = delete;
  WriteTurn& operator=(const WriteTurn&) = delete;
  ~WriteTurn();

  // True if another process has the turn; false if the file system has no
  // locks.
  bool is_taken() const { return is_taken_; }

 private:
  int fd_;
  bool is_taken_;
};

// Returns true if RLIMIT_FSIZE is set, which mappings do not obey.
bool IsFileSizeLimited();

// Copies adjacent parts to `offset` of a file on a tmpfs, open for reading and
// writing. Returns false, after copying any part of them, if that is not
// possible here: no space, no memory, an older kernel, or a file that is not
// that long yet. Writing the parts then returns the cause. A file that is
// shortened during the copy raises SIGBUS. Parts that cannot be read raise
// SIGSEGV or SIGBUS, whereas write would return an error.
bool FillPages(int fd, int64_t offset,
               std::span<const std::span<const std::byte>> parts);

// Memory for large values, in RAM or in a file without a name. Move only.
class ScratchMemory {
 public:
  // Allocates RAM or, if `dir` is not empty, a file there whose space is
  // reserved in advance and freed when the process ends. Values are
  // unspecified.
  // Errors: ResourceExhausted - not enough memory or space; those of the file
  //   system.
  static StatusOr<ScratchMemory> Take(int64_t bytes, const std::string& dir);

  ScratchMemory() = default;

  // Null if nothing is allocated.
  std::byte* data() const {
    return mapped_.data() != nullptr ? static_cast<std::byte*>(mapped_.data())
                                     : memory_.get();
  }

 private:
  std::unique_ptr<std::byte[]> memory_;
  Mapping mapped_;
};

}  // namespace belay

#endif  // BELAY_STORAGE_MAPPED_FILE_H_
