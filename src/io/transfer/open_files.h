// Data files that stay open from one job to the next.

#ifndef BELAY_IO_TRANSFER_OPEN_FILES_H_
#define BELAY_IO_TRANSFER_OPEN_FILES_H_

#include <list>
#include <string>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "io/files/posix_file.h"
#include "io/transfer/filtered_reader.h"

namespace belay {

// The files of one step that were read last. For one thread at a time.
class OpenFiles {
 public:
  // Returns the open file of this path, or null. Local.
  PosixFile* Find(const std::string& path);

  // Keeps a file of this path, and closes the one that was used least lately if
  // there are many. Local. The result is valid until the next call.
  PosixFile* Keep(const std::string& path, PosixFile file);

  // Those whose chunks pass filters. Local.
  FilteredReader& chunks() { return chunks_; }

  // Whether Check was called for it. Local.
  bool IsChecked(const std::string& path) const {
    return checked_.contains(path);
  }
  void Check(const std::string& path) { checked_.insert(path); }

  // Notes that a file was opened by its path, which may be that of another
  // save; returns whether one was since it was asked for last. Local.
  void NoteOpened() { was_opened_ = true; }
  bool TakeOpened() { return std::exchange(was_opened_, false); }

  // Closes all. Local.
  void Forget();

 private:
  struct Known {
    std::string path;
    PosixFile file;
  };

  std::list<Known> known_;  // the one that was used last is the first
  FilteredReader chunks_;
  absl::flat_hash_set<std::string> checked_;
  bool was_opened_ = false;
};

}  // namespace belay

#endif  // BELAY_IO_TRANSFER_OPEN_FILES_H_
