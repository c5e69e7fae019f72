// One at a time changes names in a directory.
//
// The lock is on the directory itself and leaves no file in it; the kernel
// frees it when its holder ends, however it ends.

#ifndef BELAY_STORE_DIRECTORY_LOCK_H_
#define BELAY_STORE_DIRECTORY_LOCK_H_

#include <string>

#include "belay/status.h"

namespace belay {

// Move only. The destructor frees the lock.
class DirectoryLock {
 public:
  // Takes the lock, and waits for it so many seconds. On a file system that
  // has no locks nothing is held, and the result is OK. Local. Passes the fault
  // point "lock".
  // Errors: FailedPrecondition - another one holds it all that time; those of
  //   ErrnoStatus.
  static StatusOr<DirectoryLock> Take(const std::string& path, double seconds);

  DirectoryLock() = default;
  // Moves, frees. Local.
  DirectoryLock(DirectoryLock&& other) noexcept;
  DirectoryLock& operator=(DirectoryLock&& other) noexcept;
  ~DirectoryLock();

  bool is_held() const { return fd_ >= 0; }

 private:
  explicit DirectoryLock(int fd) : fd_(fd) {}

  int fd_ = -1;
};

}  // namespace belay

#endif  // BELAY_STORE_DIRECTORY_LOCK_H_
