// Saves in the background that are under way, or were left so.

#ifndef BELAY_SAVE_ASYNC_SAVER_H_
#define BELAY_SAVE_ASYNC_SAVER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "save/background_save.h"
#include "save/background_votes.h"
#include "save/flush.h"
#include "save/node_progress.h"

namespace belay {

// A save from its snapshot to its end.

struct SaveUnderWay {
  enum class Doing : uint8_t { kNothing, kWriting, kReadingBack, kCommitting };

  SaveTarget target;
  SaveOptions options;  // `cache` is set, but may be gone
  // Of the program, which may have dropped it meanwhile.
  CachedPlan* cache = nullptr;
  std::weak_ptr<bool> cache_is_there;
  BackgroundSaver::OnEnd on_end;
  bool reuse = false;
  // Of what is listed, only as long as values are to be copied.
  PreparedSave prepared;
  ReservedSave reserved;
  WrittenData written;
  StepInProgress step;
  // Of the call that has begun it.
  std::vector<StageTime> stages;
  int64_t messages = 0;
  int64_t agreement_bytes = 0;
  // The copying. The thread does it if the snapshot is lazy, and then lets go
  // of all this before FlushProgress::has_copied.
  std::vector<WriteJob> copies;
  Snapshot snapshot;
  WriteCounts counts;
  // The thread copies or has copied, and the program has not waited for it yet.
  bool is_snapshot_due = false;
  // Shared with the thread.
  std::shared_ptr<FlushJob> flush;
  std::shared_ptr<FlushProgress> progress = std::make_shared<FlushProgress>();
  std::shared_ptr<CommitWork> commit;  // rank 0 only
  // What the thread does, and what this rank says of it.
  Doing doing = Doing::kNothing;
  Vote mine;
  Status status;
  // Why it is given up whatever the thread says; the same on all ranks.
  Status refused;
  // Why this rank gives it up, which the others do not know.
  Status lost;
  StallWatch watch;

  bool CallsProgram() const {
    return !reserved.finalizers.empty() || options.before_commit != nullptr;
  }
};

// Waits until the thread copies no more.
inline void WaitForCopy(const SaveUnderWay& save) {
  if (save.is_snapshot_due) save.progress->has_copied.wait(false);
}

// Saves in the background that nobody has waited for when their saver or the
// program ends. MPI_Finalize finishes them: the program has not lost its newest
// step. What cannot be finished ends the job with an error.

// From now on MPI_Finalize asks the saver, which has begun its first save. What
// is returned turns false once its communicator is freed.
std::shared_ptr<bool> RegisterSaver(BackgroundSaver& saver);

// The same no longer.
void ForgetSaver(const BackgroundSaver& saver);

// Its owner ends. Keeps a saver with a save under way until MPI_Finalize, where
// all ranks come to its end, and destroys any other. Null does nothing.
void LetGo(std::unique_ptr<BackgroundSaver> saver);

// For owners that are moved from and to.
struct LetSaverGo {
  void operator()(BackgroundSaver* saver) const {
    LetGo(std::unique_ptr<BackgroundSaver>(saver));
  }
};

// Another save of these ranks begins in this run: gives up those of the same
// that were kept, so that memory does not grow.
void GiveUpLeftSaves(const Comm& comm, const std::string& run);

}  // namespace belay

#endif  // BELAY_SAVE_ASYNC_SAVER_H_
