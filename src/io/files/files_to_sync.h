// Files that are synced once others have written them.

#ifndef BELAY_IO_FILES_FILES_TO_SYNC_H_
#define BELAY_IO_FILES_FILES_TO_SYNC_H_

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "belay/status.h"
#include "io/files/posix_file.h"

namespace belay {

// Move only.
class FilesToSync {
 public:
  // Opens them: a file that is open while others write it is told of every page
  // that failed on its way to the device. Of very many files the rest is opened
  // afterwards. Local.
  // Errors: those of PosixFile::Open.
  static StatusOr<FilesToSync> Open(std::vector<std::string> paths);

  // None.
  FilesToSync() = default;

  // Whether there are none. Local.
  bool empty() const { return paths_.empty(); }

  // Syncs and closes all of them, and calls `after_each` after each. Local.
  // Errors: those of PosixFile.
  Status SyncAll(absl::FunctionRef<void()> after_each = [] {});

 private:
  std::vector<std::string> paths_;
  std::vector<PosixFile> opened_;  // the first of them
};

}  // namespace belay

#endif  // BELAY_IO_FILES_FILES_TO_SYNC_H_
