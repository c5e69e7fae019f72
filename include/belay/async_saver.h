// Saves in the background: the program continues while its values are written.
//
//   belay::AsyncSaver saver(*comm);
//   for (int64_t step = 0; step < steps; ++step) {
//     Train();
//     if (step % 100 == 0) {
//       belay::Check(saver.Save("run", step, state));  // returns once copied
//     }
//     belay::Check(saver.Poll());  // lets rank 0 commit once all have written
//   }
//   belay::Check(saver.Close());  // the last step is on disk
//
// Save copies the values into a staging buffer and returns; a thread writes
// them. The thread calls neither MPI nor HDF5, so MPI_THREAD_FUNNELED suffices;
// with Open MPI, plain MPI_Init is enough. A step gets its final name once all
// ranks have written their data. Until then it is never listed or restored, and
// the previous step is untouched.
//
// (Orbax's AsyncCheckpointer, PyTorch's async_save.)

#ifndef BELAY_ASYNC_SAVER_H_
#define BELAY_ASYNC_SAVER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "belay/comm.h"
#include "belay/options.h"
#include "belay/state.h"
#include "belay/status.h"
#include "belay/values/async_options.h"

namespace belay {

class BackgroundSaver;
class Checkpoint;

// A save that has begun. A plain value, equal on all ranks except for
// `staged_bytes`.
struct PendingSave {
  std::string path;  // of the step, once it is committed
  int64_t step = 0;
  // Bytes that this rank has copied, to be written in the background; with
  // SnapshotMode::kLazy, the most that it will copy.
  int64_t staged_bytes = 0;
  // Set if the step is committed already, because it could not be saved in the
  // background. `note` says why.
  std::optional<SaveResult> saved;
  std::string note;
  // The previous save, if this call waited for its end.
  std::optional<SaveResult> finished;
};

// Move only. Borrows the Comm. At most one save is in progress; the next one
// waits for it. Transfer::kAuto means kIndependent here. Saves with filters, or
// with a transfer in which ranks write together (kTwoPhase, kCollective,
// kHdf5), are complete when Save returns.
//
// All functions except the constructors, the destructor and is_pending are
// collective and return the same on all ranks.
class AsyncSaver {
 public:
  // Local.
  // Errors, returned by Save: InvalidArgument - a negative option, or options
  //   that differ between ranks.
  explicit AsyncSaver(const Comm& comm, const AsyncOptions& options = {});
  AsyncSaver(AsyncSaver&&) noexcept;
  AsyncSaver& operator=(AsyncSaver&&) noexcept;
  // Does not communicate. A save in progress continues, and MPI_Finalize waits
  // for its end, unless the same ranks first begin another save in the same run
  // (docs/async.md). If a save is abandoned, its ".inprogress" directory stays
  // until the next save of that step. Local.
  ~AsyncSaver();

  // Begins to save `state` as <dir>/step_<step>. Collective. Returns once all
  // values are copied; the program may then change or free them and the State.
  // With SnapshotMode::kLazy, it may do so once WaitForSnapshot has returned.
  // `dir`, `step` and `options` as for belay::Save. The saver keeps the plan
  // from save to save, unless options.cache is set. options.before_commit,
  // after_commit and TypeHandler::Finalize are called on rank 0, in the
  // program's thread, by whichever call finds that all ranks have written.
  // Errors: those of belay::Save; that of the previous save if it has failed,
  //   and then no save begins; FailedPrecondition - moved from, or
  //   WaitForSnapshot was not called for the previous save. If the previous
  //   save has succeeded and this one cannot begin, the next Poll or Wait
  //   returns the result of the previous one.
  StatusOr<PendingSave> Save(const std::string& dir, int64_t step,
                             const State& state,
                             const SaveOptions& options = {});

  // The same for all objects as the next step, as Checkpoint::Save does.
  // Collective. A save that fails in the background does not increment the save
  // counter.
  // Errors: as above; InvalidArgument - the communicator of the Checkpoint has
  //   different ranks.
  StatusOr<PendingSave> Save(Checkpoint& checkpoint, const std::string& dir,
                             const SaveOptions& options = {});

  // Waits until the values of the save in progress are copied. Collective. Does
  // nothing if they are already copied, or if no save is in progress. Needed
  // only for SnapshotMode::kLazy, where no save is committed before this call.
  // Wait and Close do the same. Save abandons the previous save if the program
  // has not called this for it.
  // Errors: those of the save. No save is in progress afterwards.
  Status WaitForSnapshot();

  // Returns the result of the save in progress if it has ended; nothing if it
  // has not ended, or if there is none. Collective. Does not wait for the disk,
  // unless the program must be called before the commit; rank 0 then commits in
  // this call. Waits only for ranks that are two or more calls of Poll behind.
  // A save ends three or four calls after its last byte is written.
  // Errors: those of the save. No save is in progress afterwards.
  StatusOr<std::optional<SaveResult>> Poll();

  // Waits for the end of the save in progress and returns its result; nothing
  // if there is none. Collective.
  // Errors: as for Poll.
  StatusOr<std::optional<SaveResult>> Wait();

  // Waits for the save in progress and frees the memory. Collective. The saver
  // may be used again.
  // Errors: as for Poll.
  Status Close();

  // Returns whether a save is in progress. Local.
  bool is_pending() const;

 private:
  std::unique_ptr<BackgroundSaver> saver_;
};

}  // namespace belay

#endif  // BELAY_ASYNC_SAVER_H_
