// The lock of an export.

#ifndef BELAY_SAFETENSORS_EXPORT_LOCK_H_
#define BELAY_SAFETENSORS_EXPORT_LOCK_H_

#include <string>

#include "belay/status.h"
#include "storage/file_lock.h"

namespace belay {

// Lets one export of a name at a time look at its files and rename them.
//
// The lock is on a hidden file beside them, which only those who may write to
// the directory can open, so that readers cannot hold up an export. The kernel
// frees it when its holder ends.
//
// Move only. The destructor removes the file and frees the lock.
class ExportLock {
 public:
  // Creates the file and takes the lock; waits for at most so many seconds.
  // If the file system has no locks, nothing is held, and the result is OK.
  // Passes the fault points "open" and "lock".
  // Errors: FailedPrecondition - another one holds it all that time; those of
  //   FileLock.
  static StatusOr<ExportLock> Take(const std::string& path, double seconds);

  ExportLock() = default;
  ExportLock(ExportLock&& other) noexcept;
  ExportLock& operator=(ExportLock&& other) noexcept;
  ~ExportLock();

  bool is_held() const { return file_.is_open(); }

 private:
  ExportLock(std::string path, FileLock file);

  std::string path_;
  FileLock file_;
};

}  // namespace belay

#endif  // BELAY_SAFETENSORS_EXPORT_LOCK_H_
