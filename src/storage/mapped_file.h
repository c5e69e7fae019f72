// Memory of files: mapped, page by page, or for scratch.

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

// Owns memory that mmap has returned. Move only.
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

// A file that is mapped for reading. Move only. The system gives pages back
// when memory is short, so that the file may be larger than memory. A read
// error, or the end of a file that has become shorter, raises SIGBUS, which
// ends the process.
class MappedFile {
 public:
  // Maps a whole file for reading.
  // Errors: those of PosixFile; ResourceExhausted - no room for it among the
  //   addresses of this process.
  static StatusOr<MappedFile> Open(const std::string& path,
                                   Links links = Links::kRefused);

  // Nothing is mapped.
  MappedFile() = default;

  // The content, which must not be written to; null if there is none.
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

// Files in memory that several processes write at once.
//
// The kernel lets one process at a time write to a file. In memory that is most
// of the work: it finds and fills the pages while the other processes wait. The
// pages of a mapping are found without that lock, at about twice the cost. So
// whoever gets the turn writes, and the others fill pages meanwhile.

// Fewer bytes are not worth a mapping.
inline constexpr int64_t kLeastMappedBytes = int64_t{64} << 10;

// The turn to write to a file. Held until destruction, if it was free; when its
// holder ends the kernel frees it, with the last process that was forked off
// it. Only those that ask for it are kept out, and they need not wait.
class WriteTurn {
 public:
  // Takes the turn if it is free. Does not wait for it; but with `is_crowded`,
  // where more processes share the file than there are cores, first lets others
  // have this core a few times if it is not. `fd` is open for writing, and
  // outlives this.
  explicit WriteTurn(int fd, bool is_crowded = false);
  WriteTurn(const WriteTurn&) = delete;
  WriteTurn& operator=(const WriteTurn&) = delete;
  ~WriteTurn();

  // True if another process has it; false where the file system has no locks.
  bool is_taken() const { return is_taken_; }

 private:
  int fd_;
  bool is_taken_;
};

// Returns whether RLIMIT_FSIZE is set, which mappings do not obey.
bool IsFileSizeLimited();

// Copies parts that follow each other to `offset` of a file on a tmpfs, open
// for reading and writing. Returns false, with any part of them copied,
// where that can't be done here: no space, no memory, an older kernel, a file
// that is not that long yet. Writing them then tells why. A file made shorter
// meanwhile raises SIGBUS; parts that cannot be read raise SIGSEGV or SIGBUS,
// where writing them returns an error.
bool FillPages(int fd, int64_t offset,
               std::span<const std::span<const std::byte>> parts);

// Memory for large values, in RAM or in a file without a name. Move only.
class ScratchMemory {
 public:
  // Takes RAM or, if `dir` is not empty, room in a file there, all of it at
  // once, which is gone with the process. Values are unspecified.
  // Errors: ResourceExhausted - not enough memory or space; those of the file
  //   system.
  static StatusOr<ScratchMemory> Take(int64_t bytes, const std::string& dir);

  ScratchMemory() = default;

  // Null if there is nothing.
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
