// Writes that may come later, and files that have to be synced.

#ifndef BELAY_STORAGE_FILES_TO_SYNC_H_
#define BELAY_STORAGE_FILES_TO_SYNC_H_

#include <memory>

#include "absl/functional/function_ref.h"
#include "storage/posix_file.h"

namespace belay {

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

#endif  // BELAY_STORAGE_FILES_TO_SYNC_H_
