// One export of a name at a time looks at its files and gives them names.
//
// The lock is on a hidden file beside them, which only those who may write to
// the directory can open: who may only read cannot hold up an export. The
// kernel frees it when its holder ends, however it ends.

#ifndef BELAY_SAFETENSORS_EXPORT_LOCK_H_
#define BELAY_SAFETENSORS_EXPORT_LOCK_H_

#include <string>

#include "belay/status.h"
#include "io/files/file_lock.h"

namespace belay {

// Move only. The destructor removes the file and frees the lock.
class ExportLock {
 public:
  // Takes the lock on a file, which is made, and waits for it so many seconds.
  // On a file system that has no locks nothing is held, and the result is OK.
  // Local. Passes the fault points "open" and "lock".
  // Errors: FailedPrecondition - another one holds it all that time; those of
  //   FileLock.
  static StatusOr<ExportLock> Take(const std::string& path, double seconds);

  ExportLock() = default;
  // Moves, frees. Local.
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
