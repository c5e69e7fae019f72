#include "storage/files_to_sync.h"

#include "core/status_macros.h"

namespace belay {
namespace {

constexpr size_t kMostFilesToSync = 64;

StatusOr<PosixFile> OpenToSync(const std::string& path) {
  return PosixFile::Open(path, PosixFile::Mode::kWriteOnly);
}

}  // namespace

StatusOr<FilesToSync> FilesToSync::Open(std::vector<std::string> paths) {
  FilesToSync files;
  files.paths_ = std::move(paths);
  for (const std::string& path : files.paths_) {
    if (files.opened_.size() == kMostFilesToSync) break;
    BELAY_ASSIGN_OR_RETURN(PosixFile one, OpenToSync(path));
    files.opened_.push_back(std::move(one));
  }
  return files;
}

Status FilesToSync::SyncAll(absl::FunctionRef<void()> after_each) {
  for (size_t i = 0; i < paths_.size(); ++i) {
    if (i == opened_.size()) {
      BELAY_ASSIGN_OR_RETURN(PosixFile one, OpenToSync(paths_[i]));
      opened_.push_back(std::move(one));
    }
    BELAY_RETURN_IF_ERROR(opened_[i].Sync());
    BELAY_RETURN_IF_ERROR(opened_[i].Close());
    after_each();
  }
  return absl::OkStatus();
}

}  // namespace belay
