// A file that one open file at a time can lock, and its content.
//
// The kernel frees the lock when its holder ends, for whatever reason. A second
// open file of the same process is refused like one of another process.
// Fault points and errors are as in posix_file.

#ifndef BELAY_STORAGE_FILE_LOCK_H_
#define BELAY_STORAGE_FILE_LOCK_H_

#include "storage/posix_file.h"

namespace belay {

// Locks (F_WRLCK) or unlocks (F_UNLCK) a whole open file with fcntl, without
// waiting. The lock belongs to the open file, not to the process, so closing
// another open file of the same path keeps it. It does not conflict with locks
// of flock, which HDF5 takes.
int SetOpenFileLock(int fd, short type);

enum class LockResult {
  kTaken,
  kHeld,         // by another open file
  kUnsupported,  // the file system has no locks
};

// Like SetOpenFileLock, also for read locks (F_RDLCK), which several open files
// may hold at a time. `path` is for errors.
StatusOr<LockResult> TryOpenFileLock(int fd, short type,
                                     const std::string& path);

// Move only. The destructor closes the file, which frees the lock.
class FileLock {
 public:
  using Result = LockResult;

  // Opens the file, or creates it empty. All users that may write to its
  // directory can open it, and nobody else: whoever can open it can lock it. An
  // existing file must have no other name, and its content must be empty, begin
  // with `beginning` or be a prefix of it. Otherwise the file stays unchanged.
  // Errors: FailedPrecondition - belay has not made the file; those of
  //   OpenRegular.
  static StatusOr<FileLock> Open(std::string path, std::string_view beginning);

  FileLock() = default;

  // Takes the lock if it is free. Does not wait.
  StatusOr<Result> Try();

  // Releases the lock, even if forked processes still have the file open.
  void Free();

  // Returns at most `max_bytes` of the content.
  StatusOr<std::string> Read(size_t max_bytes) const;

  // Replaces the content, and makes it durable.
  Status Write(std::string_view content);

  // Returns true if the path still leads to the open file.
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

// Pins on steps: readers share a lock on the index, and the process that
// removes the step locks it exclusively.

// An open index; not open if the step has none.
class HeldFile : public Descriptor {
 public:
  HeldFile() = default;
  explicit HeldFile(Descriptor file) : Descriptor(std::move(file)) {}
};

// Pins the step at `path`. The result is not open if the step has lost its
// name, or is about to lose it.
// Errors: Unimplemented - the file system has no locks; those of OpenRegular.
StatusOr<HeldFile> PinStep(const std::string& path);

// Keeps other processes from pinning a step that is about to lose its name,
// while the result exists. Rank 0 only. A step without an index has no pins.
// Errors: FailedPrecondition - a program has pinned it; the message begins with
//   `operation`; those of OpenRegular.
StatusOr<HeldFile> LockAgainstPins(std::string_view operation,
                                   const std::string& path);

}  // namespace belay

#endif  // BELAY_STORAGE_FILE_LOCK_H_
