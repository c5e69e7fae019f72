// Files by POSIX calls, which a signal may interrupt.

#ifndef BELAY_STORAGE_POSIX_FILE_H_
#define BELAY_STORAGE_POSIX_FILE_H_

#include <sys/uio.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <span>
#include <vector>

#include "core/errno_status.h"
#include "storage/open_file.h"

namespace belay {

// Repeats a call as long as a signal interrupts it; returns what it returned.
template <typename Call>
auto Retry(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

// Linux moves at most this many bytes in one call.
inline constexpr int64_t kMaxTransfer = 0x7ffff000;
// Linux moves at most this many parts of memory in one call.
inline constexpr int kMostVectors = 1024;

// The vectors of pwritev or preadv, call by call, for parts of memory that
// follow each other in a file. Byte: std::byte or const std::byte. Borrows the
// parts.
template <typename Byte>
class IoVectors {
 public:
  explicit IoVectors(std::span<const std::span<Byte>> parts) : parts_(parts) {}

  // Takes as much of what is left as one call moves. Returns whether that is
  // anything.
  bool Fill() {
    Drop(0);
    count_ = 0;
    bytes_ = 0;
    for (; count_ < kMostVectors && count_ < std::ssize(parts_); ++count_) {
      std::span<Byte> part = parts_[count_];
      if (count_ == 0) part = part.subspan(done_);
      if (count_ > 0 && bytes_ + std::ssize(part) > kMaxTransfer) break;
      vectors_[count_] = {const_cast<std::byte*>(part.data()), part.size()};
      bytes_ += std::ssize(part);
    }
    return bytes_ > 0;
  }

  // Goes past `bytes` bytes that were moved.
  void Drop(size_t bytes) {
    done_ += bytes;
    while (!parts_.empty() && done_ >= parts_[0].size()) {
      done_ -= parts_[0].size();
      parts_ = parts_.subspan(1);
    }
  }

  // Return what Fill has taken.
  const iovec* data() const { return vectors_; }
  int size() const { return count_; }
  int64_t bytes() const { return bytes_; }

 private:
  std::span<const std::span<Byte>> parts_;  // what is left
  size_t done_ = 0;                         // bytes of the first of them
  iovec vectors_[kMostVectors];
  int count_ = 0;
  int64_t bytes_ = 0;
};

// POSIX files and directories.
//
// Every operation passes one fault point under its own name, the name that
// starts its error message: `OPERATION "PATH": cause`. Errors are those of
// ErrnoStatus. Nothing here communicates.

struct FileStat {
  int64_t size = 0;
  int64_t allocated_bytes = 0;  // less than `size` if the file has holes
  // Tell the file from another one of the same name.
  uint64_t number = 0;
  int64_t modified_ns = 0;
  int64_t links = 1;  // names that the file has
};

// An open file. Move only; for one thread at a time, but several may call
// PwriteParts, PreadAll and StartWriteback at once. The destructor closes
// silently: call Close() where the result matters.
class PosixFile {
 public:
  enum class Mode {
    kRead,        // must exist
    kReadLinked,  // the same, and may be a symbolic link
    kWrite,       // must exist; can be read, too
    // Must exist, and cannot be read: NFS then sends what was written and no
    // bytes around it.
    kWriteOnly,
    // Like kWriteOnly, for a file that others write at the same time, and that
    // has its final length. On a tmpfs it is opened for reading too, and
    // PwriteParts does not wait for the others (storage/mapped_file.h).
    kWriteBeside,
    // Like kWriteBeside, if more processes write than there are cores: while
    // one writes, the others yield.
    kWriteBesideMany,
    kCreate,  // must not exist; can be read, too
  };

  // Opens a regular file.
  static StatusOr<PosixFile> Open(std::string path, Mode mode);

  // Closes the file, also if it returns an error; a second call does nothing.
  Status Close();

  // Writes all bytes at `offset`; after an error any part of them may be
  // written. Beyond RLIMIT_FSIZE the system raises SIGXFSZ, which ends
  // the process; only where the program ignores that signal is the result
  // ResourceExhausted (EFBIG).
  Status PwriteAll(int64_t offset, const void* data, int64_t bytes);

  // Writes parts that follow each other in the file likewise.
  Status PwriteParts(int64_t offset,
                     std::span<const std::span<const std::byte>> parts);

  // Reads exactly `bytes` bytes at `offset`; after an error any part of `data`
  // may be overwritten.
  // Errors: DataLoss `the file is truncated` - it ends before; `need` is the
  // size that holds these bytes, `found` the size of the file.
  Status PreadAll(int64_t offset, void* data, int64_t bytes);

  // Reads parts that follow each other in the file likewise.
  Status PreadParts(int64_t offset,
                    std::span<const std::span<std::byte>> parts);

  // Reserves the bytes [from, bytes), so that writing them cannot run out of
  // space, and makes the file at least `bytes` long. Where the file system
  // cannot reserve, looks whether that much space is free now instead.
  // SIGXFSZ as in PwriteAll.
  // Errors: ResourceExhausted `no space left` - `found` is what is free now
  // plus what the file has already.
  Status Fallocate(int64_t bytes, int64_t from = 0);

  // Reserves the bytes, and leaves the size unchanged.
  // Errors: as Fallocate.
  Status ReserveUnsized(int64_t bytes);

  // Gives back what is reserved behind the end of the file.
  Status ReleaseUnsized();

  // Makes the file `bytes` long and reserves nothing, but looks whether that
  // much space is free now. SIGXFSZ as in PwriteAll.
  // Errors: as Fallocate.
  Status Extend(int64_t bytes);

  // Makes content and size durable; the name needs SyncDirectory.
  Status Sync();

  // Starts writing the range to the device and does not wait. A hint: cannot
  // fail, passes no fault point.
  void StartWriteback(int64_t offset, int64_t bytes);

  // Returns size and allocated space.
  StatusOr<FileStat> Stat() const;

  // Returns how many bytes do not lie in holes, at least those of the first
  // thousand parts; all of them where the file system knows no holes.
  int64_t DataBytes() const;

  // Return what was opened, and how many calls and mappings moved data.
  const std::string& path() const { return path_; }
  int64_t write_calls() const { return write_calls_; }
  int64_t read_calls() const { return read_calls_; }

 private:
  // A variable of several threads that moves with the file.
  template <typename T>
  struct Atomic : std::atomic<T> {
    Atomic() : std::atomic<T>(T{}) {}
    Atomic(Atomic&& other) noexcept : std::atomic<T>(other.load()) {}
    Atomic& operator=(Atomic&& other) noexcept {
      this->store(other.load());
      return *this;
    }
  };

  // How writers of this file take turns.
  enum class Turns : uint8_t { kNone, kSome, kCrowded };

  PosixFile(std::string path, Descriptor file, Turns turns)
      : path_(std::move(path)), file_(std::move(file)), turns_(turns) {}
  static Turns ChooseTurns(const std::string& path, Mode mode);
  Status WriteVectors(int64_t offset,
                      std::span<const std::span<const std::byte>> parts);
  Status FillOrWrite(int64_t offset,
                     std::span<const std::span<const std::byte>> parts);
  Status Reserve(int mode, int64_t from, int64_t bytes);
  StatusOr<int64_t> SpaceForThisFile() const;
  Status NoSpaceLeft(int64_t need, int64_t found) const;
  Status TooShort(int64_t need) const;

  std::string path_;
  Descriptor file_;
  Turns turns_ = Turns::kNone;
  // True while a thread of this process writes: the turn belongs to the open
  // file, so that it does not keep out other threads.
  Atomic<bool> is_written_;
  Atomic<int64_t> write_calls_;
  Atomic<int64_t> read_calls_;
};

// Creates one directory; its parent must exist.
Status MakeDirectory(const std::string& path);

// Makes the names in a directory durable: created, renamed, removed.
Status SyncDirectory(const std::string& path);

// Renames a file or directory within a file system. An existing file or empty
// directory of the same kind is replaced.
Status Rename(const std::string& from, const std::string& to);

// Lets two files or directories of a file system trade places, in one step
// where the file system can do that, else by way of "<b>.replaced".
Status Swap(const std::string& a, const std::string& b);

// Removes a file, or a directory with all that is in it. Links are removed,
// not followed. OK if nothing is there. After an error any part may be gone.
Status RemoveTree(const std::string& path);

// Returns whether anything has that name, even a link to nothing.
StatusOr<bool> Exists(const std::string& path);

// Returns the names in a directory, sorted, without "." and "..".
StatusOr<std::vector<std::string>> ListDirectory(const std::string& path);

// Returns the space that an ordinary user may still fill on the file system of
// `path`; INT64_MAX where the file system has no limit of its own.
StatusOr<int64_t> FreeBytes(const std::string& path);

// Returns a failure to write to `path` as it is or, if its cause is not known
// and less than `need` bytes are free there, as ResourceExhausted. MPI does not
// tell a full disk from other failures.
Status BlameFullDisk(const Status& status, const std::string& path,
                     int64_t need);

}  // namespace belay

#endif  // BELAY_STORAGE_POSIX_FILE_H_
