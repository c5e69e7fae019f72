// A snapshot: the bytes of a save as its files will have them, copied so that
// the program can change its values.

#ifndef BELAY_SAVE_SNAPSHOT_H_
#define BELAY_SAVE_SNAPSHOT_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "belay/status.h"
#include "storage/mapped_file.h"
#include "storage/posix_file.h"
#include "storage/transfer.h"

namespace belay {

// Memory for the snapshots of one rank, kept from save to save.
class SnapshotMemory {
 public:
  // Makes room for `bytes`; a larger room loses its content. With `touch`, maps
  // all pages of new room, which is wasteful if only a part is used.
  // Errors: ResourceExhausted - there is no memory.
  Status Reserve(int64_t bytes, bool touch);

  std::byte* data() const { return memory_.data(); }
  int64_t touched_bytes() const { return touched_bytes_; }

 private:
  ScratchMemory memory_;
  int64_t bytes_ = 0;
  int64_t touched_bytes_ = 0;  // by Reserve
};

// Bytes that follow each other in the snapshot and in the file.
struct SnapshotRun {
  int64_t offset = 0;  // in the file
  int64_t bytes = 0;
};

// The part of a snapshot that goes to one file.
struct SnapshotFile {
  std::string path;
  PosixFile::Mode mode = PosixFile::Mode::kWriteBeside;
  const std::byte* data = nullptr;  // of the runs, one behind the other
  // A deque, which does not copy to grow: short runs take more memory than
  // bytes.
  std::deque<SnapshotRun> runs;
};

// Returns true if a snapshot of `bytes` fits into `limit` even with the
// shortest runs.
bool FitsInAnyRuns(int64_t bytes, int64_t limit);

// A snapshot while it is filled, and its counts.
struct Snapshot {
  std::byte* data = nullptr;
  int64_t room = 0;
  int64_t touched = 0;  // of the room, whether in use or not
  int64_t limit = 0;    // of bytes and runs together, in bytes
  int64_t bytes = 0;    // of the room in use
  int64_t runs = 0;     // of all files
  std::vector<SnapshotFile> files;
  // Called before each tile; an error ends the copying. May be empty.
  std::function<Status()> before_tile = nullptr;
};

// Copies the bytes that a job writes to its file, and adds them to the
// checksums. Without room, writes them to the file at once and reads them back,
// because there is no copy to compare them with later.
// Errors: those of
// ConversionBuffer, of PosixFile and of `before_tile`; DataLoss - what
//   was read back is not what was written.
Status TakeSnapshot(const WriteJob& job, Snapshot& snapshot,
                    WriteCounts& counts);

}  // namespace belay

#endif  // BELAY_SAVE_SNAPSHOT_H_
