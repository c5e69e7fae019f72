// A file that one open file of all can lock, and its content.
//
// The kernel frees the lock when its holder ends, however it ends. Another
// open file of the same process is refused as one of another process is.
// Fault points and errors are as in posix_file.

#ifndef BELAY_STORAGE_FILE_LOCK_H_
#define BELAY_STORAGE_FILE_LOCK_H_

#include "storage/posix_file.h"

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

// Does the same, or locks for reading (F_RDLCK), which several open files may
// do. `path` is for errors.
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

  // Takes the lock if it is free. Does not wait.
  StatusOr<Result> Try();

  // Gives the lock up, also for processes that were forked off meanwhile and
  // have the file open.
  void Free();

  // Returns at most `max_bytes` of the content.
  StatusOr<std::string> Read(size_t max_bytes) const;

  // Replaces the content, and makes it durable.
  Status Write(std::string_view content);

  // Returns whether the open file has not been removed or replaced.
  bool HasItsName() const;

  bool is_open() const { return file_.fd() >= 0; }
  // True if Open has created the file.
  bool is_new() const { return is_new_; }

 private:
  FileLock(std::string path, Descriptor file, bool is_new)
      : path_(std::move(path)), file_(std::move(file)), is_new_(is_new) {}

  std::string path_;
  Descriptor file_;
  bool is_new_ = false;
};

// Pins on steps: readers share a lock on the index, and whoever removes the
// step locks it alone.

// An open index; not open if the step has none.
class HeldFile : public Descriptor {
 public:
  HeldFile() = default;
  explicit HeldFile(Descriptor file) : Descriptor(std::move(file)) {}
};

// Pins the step at `path`. The result is not open if the step has lost its name
// meanwhile, or is about to.
// Errors: Unimplemented - the file system has no locks; those of OpenRegular.
StatusOr<HeldFile> PinStep(const std::string& path);

// Keeps others from pinning a step that is to lose its name, as long as the
// result lives. Rank 0 only. A step without an index has no pins.
// Errors: FailedPrecondition - a program has pinned it; the message begins with
//   `operation`; those of OpenRegular.
StatusOr<HeldFile> LockAgainstPins(std::string_view operation,
                                   const std::string& path);

}  // namespace belay

#endif  // BELAY_STORAGE_FILE_LOCK_H_
