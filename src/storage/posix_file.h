// Files and directories through POSIX calls.
//
// Each operation passes one fault point named after it; the same name starts
// its error messages: `OPERATION "PATH": cause`. Errors are those of
// ErrnoStatus. Nothing here communicates.

#ifndef BELAY_STORAGE_POSIX_FILE_H_
#define BELAY_STORAGE_POSIX_FILE_H_

#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "belay/status.h"
#include "core/errno_status.h"
#include "core/process.h"

namespace belay {

// Repeats a call while signals interrupt it; returns its last result.
template <typename Call>
auto Retry(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

// Owns a file descriptor. Move only; the destructor closes it.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(other.Release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }

  // The file descriptor; negative if there is none.
  int fd() const { return fd_; }
  // Releases ownership.
  int Release() { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
};

// Opens a file with flags of open(2). Does not wait for the other end of a
// pipe. A new file gets `mode`, minus the umask. `links` applies to the last
// component of the path. Passes no fault point.
// Errors: `OPERATION "PATH": cause` as from ErrnoStatus; InvalidArgument - it
//   is a symbolic link or no regular file; the message names its kind.
StatusOr<Descriptor> OpenRegular(const std::string& path, int flags,
                                 std::string_view operation, mode_t mode = 0666,
                                 Links links = Links::kRefused);

// Returns true if this name, or the link of this name, still leads to the open
// file.
bool HasName(int fd, const std::string& path);

// Linux accepts at most this many memory parts per call.
inline constexpr int kMaxVectors = 1024;

struct FileStat {
  int64_t size = 0;
  int64_t allocated_bytes = 0;  // less than `size` if the file has holes
  // Tell the file from another file of the same name.
  uint64_t number = 0;
  int64_t modified_ns = 0;
  int64_t links = 1;  // number of names that the file has
};

// An open file. Move only. Use it from one thread at a time; only PwriteParts,
// PreadAll and StartWriteback may run concurrently in several threads. The
// destructor ignores errors: call Close() where the result matters.
class PosixFile {
 public:
  enum class Mode {
    kRead,        // must exist
    kReadLinked,  // must exist; may be a symbolic link
    kWrite,       // must exist; also readable
    // Must exist, and is not readable: NFS then sends only the bytes that were
    // written, not those around them.
    kWriteOnly,
    // Like kWriteOnly, for a file that other processes write concurrently and
    // that has its final length. On a tmpfs it is also opened for reading, and
    // PwriteParts does not wait for the other writers (storage/mapped_file.h).
    kWriteBeside,
    // Like kWriteBeside, if more processes write than there are cores: while
    // one process writes, the others yield.
    kWriteBesideMany,
    kCreate,  // must not exist; also readable
  };

  // Opens a regular file.
  static StatusOr<PosixFile> Open(std::string path, Mode mode);

  // Closes the file, even if it returns an error; a second call does nothing.
  Status Close();

  // Writes all bytes at `offset`. After an error, any part of them may have
  // been written. Beyond RLIMIT_FSIZE the system raises SIGXFSZ, which ends the
  // process. If the program ignores that signal, the result is
  // ResourceExhausted (EFBIG).
  Status PwriteAll(int64_t offset, const void* data, int64_t bytes);

  // Like PwriteAll, for parts that are adjacent in the file.
  Status PwriteParts(int64_t offset,
                     std::span<const std::span<const std::byte>> parts);

  // Reads exactly `bytes` bytes at `offset`; after an error, any part of `data`
  // may be overwritten.
  // Errors: DataLoss `the file is truncated` - it ends earlier; `need` is the
  // size that would hold these bytes, `found` the size of the file.
  Status PreadAll(int64_t offset, void* data, int64_t bytes);

  // Like PreadAll, for parts that are adjacent in the file.
  Status PreadParts(int64_t offset,
                    std::span<const std::span<std::byte>> parts);

  // Reserves the bytes [from, bytes), so that writing them cannot run out of
  // space, and makes the file at least `bytes` long. If the file system cannot
  // reserve, only checks that this much space is free now.
  // SIGXFSZ as in PwriteAll.
  // Errors: ResourceExhausted `no space left` - `found` is the free space plus
  // the space that the file already has.
  Status Fallocate(int64_t bytes, int64_t from = 0);

  // Reserves the bytes without changing the file's size.
  // Errors: as Fallocate.
  Status ReserveUnsized(int64_t bytes);

  // Releases the space reserved beyond the end of the file.
  Status ReleaseUnsized();

  // Makes the file `bytes` long without reserving space, but checks that this
  // much space is free now. SIGXFSZ as in PwriteAll.
  // Errors: as Fallocate.
  Status Extend(int64_t bytes);

  // Makes content and size durable; the name needs SyncDirectory.
  Status Sync();

  // Starts writing the range to the device and does not wait. Only a hint: it
  // cannot fail and passes no fault point.
  void StartWriteback(int64_t offset, int64_t bytes);

  // Returns the size, the allocated space and the identity.
  StatusOr<FileStat> Stat() const;

  // Returns the number of bytes outside holes, within the first thousand data
  // ranges. If the file system does not report holes, counts all bytes.
  int64_t DataBytes() const;

  // Return the path, and the number of calls and mappings that moved data.
  const std::string& path() const { return path_; }
  int64_t write_calls() const { return write_calls_; }
  int64_t read_calls() const { return read_calls_; }

 private:
  // An atomic variable that moves with the file.
  template <typename T>
  struct Atomic : std::atomic<T> {
    Atomic() : std::atomic<T>(T{}) {}
    Atomic(Atomic&& other) noexcept : std::atomic<T>(other.load()) {}
    Atomic& operator=(Atomic&& other) noexcept {
      this->store(other.load());
      return *this;
    }
  };

  // How the writers of this file take turns.
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
  // True while a thread of this process writes. The turn belongs to the open
  // file, so it does not exclude other threads.
  Atomic<bool> is_written_;
  Atomic<int64_t> write_calls_;
  Atomic<int64_t> read_calls_;
};

// Creates one directory; its parent must exist.
Status MakeDirectory(const std::string& path);

// Makes the creations, renames and removals of names in a directory durable.
Status SyncDirectory(const std::string& path);

// Renames a file or directory within a file system. Replaces an existing file
// or empty directory of the same kind.
Status Rename(const std::string& from, const std::string& to);

// Exchanges the names of two files or directories of one file system. Atomic if
// the file system supports it; otherwise goes through the name "<b>.replaced".
Status Swap(const std::string& a, const std::string& b);

// Removes a file, or a directory with its content. Links are removed, not
// followed. OK if nothing is there. After an error, any part may be gone.
Status RemoveTree(const std::string& path);

// Returns true if anything has that name, even a dangling link.
StatusOr<bool> Exists(const std::string& path);

// Returns the names in a directory, sorted, without "." and "..".
StatusOr<std::vector<std::string>> ListDirectory(const std::string& path);

// Returns the space that an ordinary user may still fill on the file system of
// `path`; INT64_MAX if the file system has no limit.
StatusOr<int64_t> FreeBytes(const std::string& path);

// Returns a write failure of `path`: as ResourceExhausted if its cause is
// unknown and fewer than `need` bytes are free there, otherwise unchanged. MPI
// does not distinguish a full disk from other failures.
Status BlameFullDisk(const Status& status, const std::string& path,
                     int64_t need);

// Moves segments that are adjacent in a file in one call, wherever they are in
// memory. Reads also cover short gaps between segments.
// Byte: std::byte to read into, const std::byte to write from.
template <typename Byte>
class JoinedSegments {
 public:
  // Moves parts that are adjacent in the file, starting at `offset`.
  using Move = std::function<Status(int64_t offset, int64_t bytes,
                                    std::span<const std::span<Byte>> parts)>;

  // `gap` receives the bytes of gaps, and its size is the longest gap to read.
  // Empty for writes. Borrowed.
  explicit JoinedSegments(Move move, std::span<Byte> gap = {})
      : move_(std::move(move)), gap_(gap) {
    parts_.reserve(kMaxVectors);
  }

  // Moves the pending segments if this one does not follow them, and keeps this
  // segment for later. After an error, nothing more is moved.
  void Add(std::span<Byte> part, int64_t offset) {
    const int64_t gap = offset - (offset_ + bytes_);
    const bool is_near = 0 <= gap && gap <= std::ssize(gap_);
    const size_t needed = gap > 0 ? 2 : 1;
    if (!is_near || parts_.size() + needed > kMaxVectors) {
      Flush().IgnoreError();  // the next Flush reports it
    }
    if (parts_.empty()) {
      offset_ = offset;
    } else if (gap > 0) {
      parts_.push_back(gap_.first(static_cast<size_t>(gap)));
      bytes_ += gap;
    }
    if (!parts_.empty() &&
        parts_.back().data() + parts_.back().size() == part.data()) {
      parts_.back() = {parts_.back().data(),
                       parts_.back().size() + part.size()};
    } else {
      parts_.push_back(part);
    }
    bytes_ += std::ssize(part);
  }

  // Moves the pending segments. Returns the first error so far.
  Status Flush() {
    if (bytes_ > 0 && status_.ok()) status_ = move_(offset_, bytes_, parts_);
    parts_.clear();
    bytes_ = 0;
    return status_;
  }

 private:
  Move move_;
  std::span<Byte> gap_;
  Status status_;
  std::vector<std::span<Byte>> parts_;
  int64_t offset_ = 0;
  int64_t bytes_ = 0;
};

// Returns the content of a regular file.
// Errors: those of PosixFile; DataLoss - it has more than `most` bytes;
//   ResourceExhausted - there is no memory for it.
StatusOr<std::string> ReadWhole(const std::string& path,
                                int64_t most = INT64_MAX);

// Creates the file with this content; syncs it if `durable`.
// Errors: those of PosixFile.
Status WriteWhole(const std::string& path, std::string_view content,
                  bool durable);

// Identifies the directory that has this name now; nullopt if there is none.
inline std::optional<std::pair<dev_t, ino_t>> DirectoryId(
    const std::string& path) {
  struct stat stat = {};
  if (::stat(path.c_str(), &stat) != 0) return std::nullopt;
  return std::pair(stat.st_dev, stat.st_ino);
}

// Repeats `look` until it finds something, or until the name refers to the same
// directory before and after the call. Otherwise `look` may have seen a
// replaced directory while it was being removed. Returns the last result.
template <typename Look>
auto LookWhileReplaced(const std::string& path, Look look) {
  constexpr int kMaxLooks = 100;
  for (int looks = 1;; ++looks) {
    const auto before = DirectoryId(path);
    auto result = look();
    bool is_found = result.ok();
    if constexpr (std::is_same_v<decltype(result), StatusOr<bool>>) {
      is_found = is_found && *result;
    }
    if (is_found || looks == kMaxLooks || before == DirectoryId(path)) {
      return result;
    }
  }
}

// Opens the path that `resolve` returns. Resolves again if the path was deleted
// or replaced before it was opened.
template <typename Resolve, typename Open>
auto OpenResolved(Resolve resolve, Open open) -> decltype(open(std::string())) {
  constexpr int kMaxTries = 10, kMaxAbsent = 2;
  for (int tries = 1, absent = 0;; ++tries) {
    const StatusOr<std::string> path = resolve();
    if (!path.ok()) return path.status();
    const auto before = DirectoryId(*path);
    auto result = open(*path);
    const bool is_same = before == DirectoryId(*path);
    if (is_same && !before) ++absent;  // a swap removes the name only briefly
    if (result.ok() || tries == kMaxTries || absent == kMaxAbsent ||
        (is_same && before)) {
      return result;
    }
  }
}

// Creates the directory `path` unless something already has that name; syncs
// its parent if `durable`. The parent must exist. Also OK if another program
// creates it first, or if something other than a directory has the name.
// Errors: NotFound - no parent; the message names it; those of MakeDirectory
//   and SyncDirectory.
Status EnsureDirectory(const std::string& path, bool durable);

// Bytes that an existing file still lacks and that can be written later.
struct LaterWrite {
  struct Region {
    int64_t offset = 0;
    std::string_view bytes;
  };

  std::string path;
  std::vector<Region> regions;
  std::shared_ptr<const void> owner;  // keeps the bytes alive
};

using LaterWrites = std::vector<LaterWrite>;

// Files to sync after other processes have written them. Move only.
class FilesToSync {
 public:
  // Opens the files before other processes write them, so that fsync reports
  // every page whose write-back failed. If there are very many, opens the rest
  // later.
  // Errors: those of PosixFile::Open.
  static StatusOr<FilesToSync> Open(std::vector<std::string> paths);

  FilesToSync() = default;

  bool empty() const { return paths_.empty(); }

  // Syncs and closes each file, then calls `after_each`.
  // Errors: those of PosixFile.
  Status SyncAll(absl::FunctionRef<void()> after_each = [] {});

 private:
  std::vector<std::string> paths_;
  std::vector<PosixFile> opened_;  // of the first paths
};

}  // namespace belay

#endif  // BELAY_STORAGE_POSIX_FILE_H_
