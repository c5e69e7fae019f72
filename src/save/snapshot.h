// A snapshot: a copy of the bytes that a save writes to its files. Once it is
// taken, the program may change its values.

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
  // Makes room for `bytes`. The old content is lost if the memory must grow.
  // With `touch`, maps all pages of newly allocated memory, which is wasteful
  // if only part of it is used.
  // Errors: ResourceExhausted - there is no memory.
  Status Reserve(int64_t bytes, bool touch);

  std::byte* data() const { return memory_.data(); }
  int64_t touched_bytes() const { return touched_bytes_; }

 private:
  ScratchMemory memory_;
  int64_t bytes_ = 0;
  int64_t touched_bytes_ = 0;  // of memory_, by Reserve
};

// Bytes that are contiguous both in the snapshot and in the file.
struct SnapshotRun {
  int64_t offset = 0;  // in the file
  int64_t bytes = 0;
};

// The part of a snapshot that goes to one file.
struct SnapshotFile {
  std::string path;
  PosixFile::Mode mode = PosixFile::Mode::kWriteBeside;
  const std::byte* data = nullptr;  // of the runs, one after another
  // A deque, because it grows without copying. If runs are short, this list
  // takes more memory than their bytes.
  std::deque<SnapshotRun> runs;
};

// Returns true if a snapshot of `bytes` fits into `limit` even with the
// shortest runs.
bool FitsInAnyRuns(int64_t bytes, int64_t limit);

// A snapshot while it is being filled, and its counts.
struct Snapshot {
  std::byte* data = nullptr;
  int64_t room = 0;
  int64_t touched = 0;  // bytes of the room, in use or not
  int64_t limit = 0;    // bytes for data and runs together
  int64_t bytes = 0;    // bytes of the room in use
  int64_t runs = 0;     // of all files
  std::vector<SnapshotFile> files;
  // Called before each tile; an error ends the copying. May be empty.
  std::function<Status()> before_tile = nullptr;
};

// Copies the bytes that a job writes to its file, and adds them to the
// checksums. Bytes that do not fit are written to the file immediately and read
// back, because there is no copy to compare them with later.
// Errors: those of ConversionBuffer, of PosixFile and of `before_tile`;
//   DataLoss - what was read back is not what was written.
Status TakeSnapshot(const WriteJob& job, Snapshot& snapshot,
                    WriteCounts& counts);

}  // namespace belay

#endif  // BELAY_SAVE_SNAPSHOT_H_
