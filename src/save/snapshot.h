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
  // Makes room for so many bytes: what was there is gone if there was less. New
  // room is touched unless only part of it may be used.
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
  // Never copied to grow: with short runs this is longer than their bytes.
  std::deque<SnapshotRun> runs;
};

// Whether a snapshot of so many bytes keeps to this limit however short its
// runs are: all of it is used.
bool FitsInAnyRuns(int64_t bytes, int64_t limit);

// Where a snapshot is filled, and what came of it.
struct Snapshot {
  std::byte* data = nullptr;
  int64_t room = 0;
  int64_t touched = 0;  // of the room, whether in use or not
  int64_t limit = 0;    // of bytes and runs together, in bytes
  int64_t bytes = 0;    // of the room in use
  int64_t runs = 0;     // of all files
  std::vector<SnapshotFile> files;
  // Is called before each tile, and ends the copying if it fails. May be empty.
  std::function<Status()> before_tile = nullptr;
};

// Copies what a job writes to its file, and counts it for the checksums. Where
// there is no room left, writes to the file at once, and reads that back: there
// is no copy that it could be compared with later.
// Errors: those of Staging, of PosixFile and of `before_tile`; DataLoss - what
//   was read back is not what was written.
Status TakeSnapshot(const WriteJob& job, Snapshot& snapshot,
                    WriteCounts& counts);

}  // namespace belay

#endif  // BELAY_SAVE_SNAPSHOT_H_
