// Writes that may come later, and files that have to be synced.

#ifndef BELAY_STORAGE_FILES_TO_SYNC_H_
#define BELAY_STORAGE_FILES_TO_SYNC_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "belay/status.h"
#include "storage/posix_file.h"

namespace belay {

// Bytes that are known, but need not be written yet.

// What one file lacks, which is there already.
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

// Files that are synced once others have written them.

// Move only.
class FilesToSync {
 public:
  // Opens them: a file that is open while others write it is told of every page
  // that failed on its way to the device. Of very many files the rest is opened
  // afterwards.
  // Errors: those of PosixFile::Open.
  static StatusOr<FilesToSync> Open(std::vector<std::string> paths);

  // None.
  FilesToSync() = default;

  // Whether there are none.
  bool empty() const { return paths_.empty(); }

  // Syncs and closes all of them, and calls `after_each` after each.
  // Errors: those of PosixFile.
  Status SyncAll(absl::FunctionRef<void()> after_each = [] {});

 private:
  std::vector<std::string> paths_;
  std::vector<PosixFile> opened_;  // the first of them
};

}  // namespace belay

#endif  // BELAY_STORAGE_FILES_TO_SYNC_H_
