// A file that one open file of all can lock, and its content.
//
// The kernel frees the lock when its holder ends, however it ends. Another
// open file of the same process is refused as one of another process is.
// Fault points and errors are as in posix_file.

#ifndef BELAY_STORAGE_FILE_LOCK_H_
#define BELAY_STORAGE_FILE_LOCK_H_

#include <string>
#include <string_view>

#include "belay/status.h"

namespace belay {

// Locks (F_WRLCK) or frees (F_UNLCK) all of an open file, as fcntl does, and
// does not wait. The lock belongs to the open file and not to the process, so
// that closing another one keeps it. Those that flock takes, as HDF5 does, are
// others.
int SetOpenFileLock(int fd, short type);

enum class LockResult {
  kTaken,
  kHeld,         // by another open file
  kUnsupported,  // the file system has no locks
};

// The same, which readers may also share (F_RDLCK); `path` is for errors.
StatusOr<LockResult> TryOpenFileLock(int fd, short type,
                                     const std::string& path);

// Move only. The destructor closes the file, which frees the lock.
class FileLock {
 public:
  using Result = LockResult;

  // Opens a file, or creates it empty. Those who may write to its directory can
  // open it, and nobody else: a lock needs no more than an open file. A file
  // that exists must have no other name, and must be empty, begin with
  // `beginning` or be a part of it. Otherwise nothing of it is changed.
  // Errors, besides those of OpenRegular: FailedPrecondition - belay has not
  // made
  //   the file.
  static StatusOr<FileLock> Open(std::string path, std::string_view beginning);

  FileLock() = default;
  // Moves, closes.
  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&& other) noexcept;
  ~FileLock();

  // Takes the lock if it is free. Does not wait.
  StatusOr<Result> Try();

  // Gives the lock up, also for processes that were forked off meanwhile and
  // have the file open.
  void Free();

  // Returns the content, of which only so much counts.
  StatusOr<std::string> Read(size_t max_bytes) const;

  // Replaces the content, and makes it durable.
  Status Write(std::string_view content);

  // Whether the open file has not been removed or replaced.
  bool HasItsName() const;

  bool is_open() const { return fd_ >= 0; }
  // Whether the file was created to be opened.
  bool is_new() const { return is_new_; }

 private:
  FileLock(std::string path, int fd, bool is_new);

  std::string path_;
  int fd_ = -1;
  bool is_new_ = false;
};

}  // namespace belay

#endif  // BELAY_STORAGE_FILE_LOCK_H_
