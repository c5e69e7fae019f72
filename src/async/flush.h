// What the thread of a save in the background does: the bytes of a snapshot go
// into their files, and rank 0 finishes the step. No MPI and no HDF5. A call of
// the program that waits for the thread takes pieces of the same list.

#ifndef BELAY_ASYNC_FLUSH_H_
#define BELAY_ASYNC_FLUSH_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "async/flush_pass.h"
#include "async/node_progress.h"
#include "async/snapshot.h"
#include "belay/status.h"
#include "io/files/files_to_sync.h"
#include "io/files/later_writes.h"

namespace belay {

// What the thread and the calls of the program both look at.
struct FlushProgress {
  FlushPass writing{FlushPass::Goal::kWrite};
  FlushPass comparing{FlushPass::Goal::kCompare};
  std::atomic<bool> is_cancelled{false};
  // The thread has ended because of that, or because of another rank: it has no
  // error of its own.
  std::atomic<bool> has_given_up{false};
  std::atomic<bool> has_copied{false};  // it no longer looks at any value
  std::atomic<bool> copy_has_failed{false};
  std::atomic<double> copy_seconds{0};  // that copying took in the thread
  std::atomic<int64_t> write_calls{0};
  std::atomic<double> seconds{0};  // that writing and syncing took
};

// The snapshot of one rank on its way to its files. Owns all it uses, since
// nobody may wait for it.
struct FlushJob {
  std::string path;  // of the step, for messages
  std::shared_ptr<const SnapshotMemory> memory;
  LaterWrites metadata;  // of the files that this rank has made
  std::vector<SnapshotFile> files;
  bool durable = true;
  std::function<Status()> once_open;  // as of WriteJob
  FilesToSync synced;  // by this rank, opened before anybody has written
  std::shared_ptr<NodeProgress> node;
  int64_t number = 0;            // of this save on the node
  int64_t bytes_per_second = 0;  // 0: no limit
};

// Returns an error if the save was given up. Local.
// Errors: Cancelled.
Status CheckCancelled(const FlushJob& job, FlushProgress& progress);

// Writes all bytes. Where this rank syncs files, waits until all ranks of the
// node have written, and syncs them. Local.
// Errors: those of PosixFile; Cancelled - somebody has cancelled it, or another
//   rank of the node has failed.
Status WriteSnapshot(FlushJob& job, FlushProgress& progress);

// Reads back what was written and compares it with the snapshot. Local.
// Errors: DataLoss - they differ; names the file and the offset. Those of
//   PosixFile; Cancelled.
Status ReadBackSnapshot(const FlushJob& job, FlushProgress& progress);

// Whether HelpFlush has a piece to take. Local.
bool CanHelpFlush(const FlushJob& job, const FlushProgress& progress);

// Takes one piece of what is being written or compared, for a call of the
// program that would only wait for the thread. Returns false if there is none
// to take, or if that would exceed the job's bytes per second. What fails is
// the thread's error. Local.
bool HelpFlush(const FlushJob& job, FlushProgress& progress);

}  // namespace belay

#endif  // BELAY_ASYNC_FLUSH_H_
