// One pass over the bytes of a snapshot, to write them or to compare them with
// what is in the files: several threads take pieces from one list, so that a
// call that waits for the thread of a save does what is left itself, and waits
// for no more than the piece that the thread is at.

#ifndef BELAY_ASYNC_FLUSH_PASS_H_
#define BELAY_ASYNC_FLUSH_PASS_H_

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "async/snapshot.h"
#include "belay/status.h"
#include "io/files/posix_file.h"

namespace belay {

struct FlushJob;
struct FlushProgress;

// For any number of threads at once, unless something else is said.
class FlushPass {
 public:
  enum class Goal : uint8_t { kWrite, kCompare };
  // What a call has done.
  enum class Step : uint8_t {
    kMoved,    // a piece, or has opened a file
    kTooFast,  // nothing: the job's bytes per second allow no more yet
    kNothing,  // there is none to take
  };

  explicit FlushPass(Goal goal) : goal_(goal) {}
  FlushPass(const FlushPass&) = delete;
  FlushPass& operator=(const FlushPass&) = delete;

  // From now on there are pieces to take: all that `job` has to write is
  // known, and stays as it is. Does nothing the second time. Local.
  void Begin(const FlushJob& job);

  // Whether there is a piece to take. Local.
  bool HasPiece(const FlushJob& job) const;

  // Takes one piece, a few MiB at most, and moves it. Local.
  Step MoveOne(const FlushJob& job, FlushProgress& progress);

  // Whether all is moved, or something has failed, and no thread is at it; and
  // the limit of bytes per second has been kept. Local.
  bool IsDone(const FlushJob& job) const;

  // Waits for a moment: for other threads, or until more bytes are allowed.
  // Local.
  void Rest(const FlushJob& job) const;

  // Since it has begun. Local.
  double seconds() const;

  // The first error. Local. Requires IsDone().
  Status result() const;

 private:
  using Clock = std::chrono::steady_clock;
  using Seconds = std::chrono::duration<double>;

  // What goes into one file, one run behind the other.
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
  // A place in a source.
  struct Place {
    size_t run = 0;
    int64_t done = 0;  // of the run
    const std::byte* data = nullptr;
  };
  // A file that some thread is at.
  struct OpenFile {
    Source source;
    std::optional<PosixFile> file;  // once it is open
    Place next;
    int threads = 0;  // that are at it
  };
  // Some runs of a file, or a part of one.
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

  // And these are called without it.
  Status Open(const FlushJob& job, OpenFile& open);
  Status Move(const FlushJob& job, const Piece& piece);
  Status MovePart(const FlushJob& job, OpenFile& open, int64_t offset,
                  const std::byte* data, int64_t bytes, std::byte* room);
  std::unique_ptr<std::byte[]> TakeRoom();

  const Goal goal_;
  mutable std::mutex mutex_;  // guards all below; nobody holds it while moving
  mutable std::condition_variable changed_;
  bool has_begun_ = false;
  Clock::time_point start_;
  int64_t bytes_ = 0;    // taken
  size_t metadata_ = 0;  // the next source is in this of the job's
  size_t region_ = 0;    // this region
  size_t file_ = 0;      // or, after those, this file
  int threads_ = 0;      // that are at something
  std::list<OpenFile> open_;
  std::vector<std::unique_ptr<std::byte[]>> rooms_;  // to read into
  Status status_;
};

}  // namespace belay

#endif  // BELAY_ASYNC_FLUSH_PASS_H_
