// Writes a snapshot to its files, piece by piece.

#ifndef BELAY_SAVE_FLUSH_H_
#define BELAY_SAVE_FLUSH_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "belay/status.h"
#include "save/node_progress.h"
#include "save/snapshot.h"
#include "storage/posix_file.h"

namespace belay {

// One pass over the bytes of a snapshot, to write them or to compare them with
// the files. Several threads take pieces from one list: a call that waits for
// the thread of a save helps that thread, and in the end waits for at most one
// piece.

struct FlushJob;
struct FlushProgress;

// Thread-safe, except where noted.
class FlushPass {
 public:
  enum class Goal : uint8_t { kWrite, kCompare };
  // Result of MoveOne.
  enum class Step : uint8_t {
    kMoved,    // moved a piece or opened a file
    kTooFast,  // the job's bandwidth limit allows no piece yet
    kNothing,  // there is no piece
  };

  explicit FlushPass(Goal goal) : goal_(goal) {}
  FlushPass(const FlushPass&) = delete;
  FlushPass& operator=(const FlushPass&) = delete;

  // Starts to offer pieces. Requires that everything that `job` writes is known
  // and stays unchanged. Later calls do nothing.
  void Begin(const FlushJob& job);

  // Returns true if there is a piece to move now.
  bool HasPiece(const FlushJob& job) const;

  // Moves one piece of at most a few MiB.
  Step MoveOne(const FlushJob& job, FlushProgress& progress);

  // Returns true once no thread is moving a piece, and either a piece has
  // failed or all pieces are moved and the bandwidth limit is met.
  bool IsDone(const FlushJob& job) const;

  // Waits briefly for other threads or for the bandwidth limit to allow more
  // bytes.
  void Rest(const FlushJob& job) const;

  // Returns the seconds since Begin.
  double seconds() const;

  // Returns the first error. Requires IsDone().
  Status result() const;

 private:
  using Clock = std::chrono::steady_clock;
  using Seconds = std::chrono::duration<double>;

  // The bytes to move to one file, one run after another.
  struct Source {
    std::string path;
    PosixFile::Mode mode = PosixFile::Mode::kWrite;
    const std::byte* data = nullptr;
    const std::deque<SnapshotRun>* runs = nullptr;  // null: `only`
    SnapshotRun only;
    bool is_values = false;

    size_t num_runs() const { return runs == nullptr ? 1 : runs->size(); }
    const SnapshotRun& run(size_t i) const {
      return runs == nullptr ? only : (*runs)[i];
    }
  };
  // A position in a source.
  struct Place {
    size_t run = 0;
    int64_t done = 0;  // of the run
    const std::byte* data = nullptr;
  };
  // A file that threads are working on.
  struct OpenFile {
    Source source;
    std::optional<PosixFile> file;  // unset until it is open
    Place next;
    int threads = 0;  // number that work on it
  };
  // Some runs of a file, or part of a run.
  struct Piece {
    OpenFile* file = nullptr;
    Place from;
    int64_t bytes = 0;
  };
  enum class Work : uint8_t { kNone, kOpen, kMove };

  // These require the mutex.
  void SkipEmpty(const FlushJob& job);
  bool HasSource(const FlushJob& job) const;
  Source NextSource(const FlushJob& job);
  Work Take(const FlushJob& job, Piece& piece);
  Seconds TimeUntilDue(const FlushJob& job) const;
  bool IsTooFast(const FlushJob& job) const {
    return TimeUntilDue(job) > Seconds(0);
  }
  void Leave(OpenFile& open, FlushProgress& progress,
             std::unique_lock<std::mutex>& lock);

  // These require that the mutex is free.
  Status Open(const FlushJob& job, OpenFile& open);
  Status Move(const FlushJob& job, const Piece& piece);
  Status MovePart(const FlushJob& job, OpenFile& open, int64_t offset,
                  const std::byte* data, int64_t bytes, std::byte* room);
  std::unique_ptr<std::byte[]> TakeRoom();

  const Goal goal_;
  mutable std::mutex mutex_;  // guards all below; not held while moving
  mutable std::condition_variable changed_;
  bool has_begun_ = false;
  Clock::time_point start_;
  int64_t bytes_ = 0;    // taken so far
  size_t metadata_ = 0;  // next source: index in the job's metadata,
  size_t region_ = 0;    // and the region in it
  size_t file_ = 0;      // or, after all metadata, the data file
  int threads_ = 0;      // number that are working
  std::list<OpenFile> open_;
  std::vector<std::unique_ptr<std::byte[]>> rooms_;  // to read into
  Status status_;
};

// The work of a background save's thread: it writes the bytes of a snapshot to
// their files, and on rank 0 commits the step. It calls neither MPI nor HDF5.

// Shared by the thread and the calls of the program.
struct FlushProgress {
  FlushPass writing{FlushPass::Goal::kWrite};
  FlushPass comparing{FlushPass::Goal::kCompare};
  std::atomic<bool> is_cancelled{false};
  // The thread has ended because the save was cancelled or another rank failed,
  // without an error on this rank.
  std::atomic<bool> has_given_up{false};
  std::atomic<bool> has_copied{false};  // it reads no more values
  std::atomic<bool> copy_has_failed{false};
  std::atomic<bool> has_holes{false};   // files must be read back first
  std::atomic<double> copy_seconds{0};  // that the thread spent copying
  std::atomic<int64_t> write_calls{0};
  std::atomic<double> seconds{0};  // spent writing and syncing
};

// The snapshot of one rank and its files. Owns everything that it uses, because
// the program may never wait for it.
struct FlushJob {
  std::string path;  // of the step, for messages
  std::shared_ptr<const SnapshotMemory> memory;
  LaterWrites metadata;  // of the files that this rank has made
  std::vector<SnapshotFile> files;
  bool durable = true;
  std::function<Status()> once_open;  // as in WriteJob
  FilesToSync synced;  // files that this rank syncs, opened before any rank
                       // writes
  std::shared_ptr<NodeProgress> node;
  int64_t number = 0;            // of this save on the node
  int64_t bytes_per_second = 0;  // 0: no limit
};

// Errors: Cancelled - the save was given up.
Status CheckCancelled(const FlushJob& job, FlushProgress& progress);

// Writes all bytes. If this rank syncs files, waits until all ranks of the node
// have written, and syncs them.
// Errors: those of PosixFile; Cancelled - the save was given up, or another
//   rank of the node has failed.
Status WriteSnapshot(FlushJob& job, FlushProgress& progress);

// Reads the files back and compares them with the snapshot.
// Errors: DataLoss - they differ; names the file and the offset. Those of
//   PosixFile; Cancelled.
Status ReadBackSnapshot(const FlushJob& job, FlushProgress& progress);

// Returns true if HelpFlush has a piece to move.
bool CanHelpFlush(const FlushJob& job, const FlushProgress& progress);

// Moves one piece, in a call by the program that would otherwise only wait for
// the thread. Returns false if there is no piece, or if moving one would exceed
// the job's bytes per second. Failures are reported by the thread.
bool HelpFlush(const FlushJob& job, FlushProgress& progress);

}  // namespace belay

#endif  // BELAY_SAVE_FLUSH_H_
