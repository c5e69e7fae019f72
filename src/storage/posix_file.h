// Files and directories by POSIX calls.
//
// Every operation passes one fault point under its own name, the name that
// starts its error message: `OPERATION "PATH": cause`. Errors are those of
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

// Repeats a call as long as a signal interrupts it; returns what it returned.
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

  // The number; negative if there is none.
  int fd() const { return fd_; }
  // Gives up the ownership.
  int Release() { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
};

// Opens a file with flags of open(2). Does not wait for the other end of a
// pipe. A new file has `mode`, less the umask. `links` is about the last name
// of the path. Passes no fault point.
// Errors: `OPERATION "PATH": cause` as ErrnoStatus has them; InvalidArgument -
//   it is not a regular file, or a symbolic link; says what it is.
StatusOr<Descriptor> OpenRegular(const std::string& path, int flags,
                                 std::string_view operation, mode_t mode = 0666,
                                 Links links = Links::kRefused);

// Returns whether an open file still has this name, or is the target of a link
// of this name.
bool HasName(int fd, const std::string& path);

// Linux moves at most this many parts of memory in one call.
inline constexpr int kMaxVectors = 1024;

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

// Segments that follow each other in a file are moved by one call, wherever
// they lie in memory. Reads skip short gaps between them by reading these, too.
// Byte: std::byte to read into, const std::byte to write from.
template <typename Byte>
class JoinedSegments {
 public:
  // Moves parts that follow each other in the file from `offset` on.
  using Move = std::function<Status(int64_t offset, int64_t bytes,
                                    std::span<const std::span<Byte>> parts)>;

  // `gap` takes what lies in gaps, none of them longer; empty: of writes. It is
  // borrowed.
  explicit JoinedSegments(Move move, std::span<Byte> gap = {})
      : move_(std::move(move)), gap_(gap) {
    parts_.reserve(kMaxVectors);
  }

  // Moves what is waiting if this segment does not follow it, and keeps the
  // segment for later. Does nothing once something has failed.
  void Add(std::span<Byte> part, int64_t offset) {
    const int64_t gap = offset - (offset_ + bytes_);
    const bool is_near = 0 <= gap && gap <= std::ssize(gap_);
    const size_t needed = gap > 0 ? 2 : 1;
    if (!is_near || parts_.size() + needed > kMaxVectors) {
      Flush().IgnoreError();  // told by the next one
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

  // Moves what is waiting. Returns what has gone wrong so far.
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
//   ResourceExhausted - more than there is memory for.
StatusOr<std::string> ReadWhole(const std::string& path,
                                int64_t most = INT64_MAX);

// Creates the file; durable: and syncs it.
// Errors: those of PosixFile.
Status WriteWhole(const std::string& path, std::string_view content,
                  bool durable);

// Identifies the directory that has this name now; nothing if there is none.
inline std::optional<std::pair<dev_t, ino_t>> DirectoryId(
    const std::string& path) {
  struct stat stat = {};
  if (::stat(path.c_str(), &stat) != 0) return std::nullopt;
  return std::pair(stat.st_dev, stat.st_ino);
}

// Repeats `look` until it finds something, or until the same directory had the
// name before and after it: otherwise it may have seen a replaced directory
// while that was removed. Returns the last result.
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

// Opens the path that `resolve` returns. Resolves again if that was deleted or
// replaced before it was open.
template <typename Resolve, typename Open>
auto OpenResolved(Resolve resolve, Open open) -> decltype(open(std::string())) {
  constexpr int kMaxTries = 10, kMaxAbsent = 2;
  for (int tries = 1, absent = 0;; ++tries) {
    const StatusOr<std::string> path = resolve();
    if (!path.ok()) return path.status();
    const auto before = DirectoryId(*path);
    auto result = open(*path);
    const bool is_same = before == DirectoryId(*path);
    if (is_same && !before) ++absent;  // a name that is swapped comes back
    if (result.ok() || tries == kMaxTries || absent == kMaxAbsent ||
        (is_same && before)) {
      return result;
    }
  }
}

// Makes the directory `path` if that name is free, and with `durable` makes it
// stay. Its parent must exist. OK if another program is quicker, and for
// whatever has the name already.
// Errors: NotFound - no parent, which is named; those of MakeDirectory and
//   SyncDirectory.
Status EnsureDirectory(const std::string& path, bool durable);

// Bytes that an existing file lacks, and that may be written later.
struct LaterWrite {
  struct Region {
    int64_t offset = 0;
    std::string_view bytes;
  };

  std::string path;
  std::vector<Region> regions;
  std::shared_ptr<const void> owner;  // of the bytes
};

using LaterWrites = std::vector<LaterWrite>;

// Files that are synced once others have written them. Move only.
class FilesToSync {
 public:
  // Opens the files before others write them, so that fsync reports every page
  // that failed on its way to the device. If there are very many, it opens the
  // rest later.
  // Errors: those of PosixFile::Open.
  static StatusOr<FilesToSync> Open(std::vector<std::string> paths);

  FilesToSync() = default;

  bool empty() const { return paths_.empty(); }

  // Syncs and closes all of them, and calls `after_each` after each.
  // Errors: those of PosixFile.
  Status SyncAll(absl::FunctionRef<void()> after_each = [] {});

 private:
  std::vector<std::string> paths_;
  std::vector<PosixFile> opened_;  // the first of them
};

}  // namespace belay

#endif  // BELAY_STORAGE_POSIX_FILE_H_
