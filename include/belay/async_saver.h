// Saves in the background: the program goes on while its values are written.
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
// Save copies the values into memory of its own and returns; a thread writes
// them. The thread calls neither MPI nor HDF5, so MPI_THREAD_FUNNELED suffices,
// and with Open MPI what MPI_Init gives. A step gets its name once all ranks
// have written their data: until then it is never listed or restored, and the
// step before it is untouched.
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

// A save that has begun. A plain value, equal on all ranks but for
// `staged_bytes`.
struct PendingSave {
  std::string path;  // of the step, once it is committed
  int64_t step = 0;
  // Bytes that this rank has copied, to be written in the background; with
  // SnapshotMode::kLazy the most that it will copy.
  int64_t staged_bytes = 0;
  // Set if the step is committed already, because it could not be saved in the
  // background. `note` says why.
  std::optional<SaveResult> saved;
  std::string note;
  // The save before, if this call has waited for its end.
  std::optional<SaveResult> finished;
};

// Move only. Borrows the Comm. At most one save is under way: the next one
// waits for it. kAuto is kIndependent here. Saves with filters, or with a
// transfer in which ranks write together (kTwoPhase, kCollective, kHdf5), are
// done before Save returns.
//
// All functions but the destructor are collective, and return the same on all
// ranks.
class AsyncSaver {
 public:
  // Local.
  // Errors, returned by Save: InvalidArgument - a negative option, or options
  //   that differ between ranks.
  explicit AsyncSaver(const Comm& comm, const AsyncOptions& options = {});
  AsyncSaver(AsyncSaver&&) noexcept;
  AsyncSaver& operator=(AsyncSaver&&) noexcept;
  // Does not communicate. A save that is under way goes on, and MPI_Finalize
  // waits for its end, unless the same ranks begin another save in the same run
  // before (docs/async.md). The directory in progress of a save that was given
  // up stays until the next save of that step. Local.
  ~AsyncSaver();

  // Begins to save `state` as <dir>/step_<step>. Collective. Returns once all
  // values are copied; the program may change or free them then, and the State;
  // with SnapshotMode::kLazy once WaitForSnapshot has returned.
  // `dir`, `step` and `options` as for belay::Save. The plan is kept from save
  // to save, unless options.cache has it. options.before_commit, after_commit
  // and Finalize of type handlers are called on rank 0 by whichever call finds
  // that all ranks have written, in the thread of the program.
  // Errors: those of belay::Save; that of the save before if it has failed, and
  //   then nothing is begun; FailedPrecondition - moved from, or
  //   WaitForSnapshot was not called for the save before. If the save
  //   before has succeeded and this one cannot begin, the next Poll or Wait
  //   returns the result of the one before.
  StatusOr<PendingSave> Save(const std::string& dir, int64_t step,
                             const State& state,
                             const SaveOptions& options = {});

  // The same for all objects as the next step, as Checkpoint::Save does.
  // Collective. A save that fails in the background does not count.
  // Errors: as above; InvalidArgument - the Checkpoint has a communicator of
  //   other ranks.
  StatusOr<PendingSave> Save(Checkpoint& checkpoint, const std::string& dir,
                             const SaveOptions& options = {});

  // Waits until the values of the save under way are copied. Collective. Does
  // nothing if they are, or if there is none. Only for SnapshotMode::kLazy,
  // where nothing is committed before. Wait and Close do the same; Save gives
  // the save before up if the program has not called this for it.
  // Errors: those of the save. Nothing is under way afterwards.
  Status WaitForSnapshot();

  // Returns the result of the save under way if it has ended, and nothing if
  // it has not, or if there is none. Collective. Does not wait for the disk,
  // unless the program is to be asked before the commit, which rank 0 then does
  // in this call. Waits for ranks that have not called Poll as often as this
  // one, less one. A save ends three or four calls after its last byte.
  // Errors: those of the save. Nothing is under way afterwards.
  StatusOr<std::optional<SaveResult>> Poll();

  // Waits for the end of the save under way, and returns its result; nothing
  // if there is none. Collective.
  // Errors: as for Poll.
  StatusOr<std::optional<SaveResult>> Wait();

  // Waits, and frees the memory. Collective. The saver may be used again.
  // Errors: as for Poll.
  Status Close();

  // Whether a save is under way. Local.
  bool is_pending() const;

 private:
  std::unique_ptr<BackgroundSaver> saver_;
};

}  // namespace belay

#endif  // BELAY_ASYNC_SAVER_H_
