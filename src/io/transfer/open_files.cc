#include "io/transfer/open_files.h"

#include <algorithm>

namespace belay {

PosixFile* OpenFiles::Find(const std::string& path) {
  const auto found = std::ranges::find(known_, path, &Known::path);
  if (found == known_.end()) return nullptr;
  known_.splice(known_.begin(), known_, found);
  return &known_.front().file;
}

PosixFile* OpenFiles::Keep(const std::string& path, PosixFile file) {
  // A process may have few open.
  constexpr size_t kMostFiles = 16;
  if (known_.size() == kMostFiles) known_.pop_back();
  known_.push_front({.path = path, .file = std::move(file)});
  NoteOpened();
  return &known_.front().file;
}

void OpenFiles::Forget() {
  known_.clear();
  chunks_.Close();
  checked_.clear();
}

}  // namespace belay
