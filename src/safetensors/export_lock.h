// The lock of an export.

#ifndef BELAY_SAFETENSORS_EXPORT_LOCK_H_
#define BELAY_SAFETENSORS_EXPORT_LOCK_H_

#include <string>

#include "belay/status.h"
#include "storage/file_lock.h"

namespace belay {

// Lets only one export of a name at a time list and rename its files.
//
// The lock is on a hidden file in the same directory. Only processes that may
// write to the directory can open this file, so readers cannot block an export.
// The kernel releases the lock when its holder ends.
//
// Move only. The destructor removes the file and releases the lock.
class ExportLock {
 public:
  // Creates the file and takes the lock, waiting for at most `seconds`. If the
  // file system does not support locks, succeeds without holding one. Passes
  // the fault points "open" and "lock".
  // Errors: FailedPrecondition - another export holds the lock all that time;
  //   those of FileLock.
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
