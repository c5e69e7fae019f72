// Saving and restoring a graph of objects.
//
//   belay::Checkpoint checkpoint(*comm, {{"model", model}, {"adam", adam}});
//   auto saved = checkpoint.Save("run");            // run/step_00000001
//   auto status = checkpoint.Restore("run");        // the newest step
//   if (status.ok()) std::cout << status->ToString();
//
// What is tracked is asked anew by every save and restore (trackable.h), so
// objects may come and go in between. Ranks may hold different objects; those
// that have a path in common are one object.
//
// This is TensorFlow's tf.train.Checkpoint, and its DTensorCheckpoint where the
// values have layouts.

#ifndef BELAY_CHECKPOINT_H_
#define BELAY_CHECKPOINT_H_

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "belay/comm.h"
#include "belay/load_status.h"
#include "belay/options.h"
#include "belay/save_restore.h"
#include "belay/status.h"
#include "belay/trackable.h"

namespace belay {

class ManagedValues;
struct TrackedObjects;

// Move only. Borrows the Comm and the objects. A Checkpoint without objects is
// fine: it may get them later, through what it refers to.
//
// Errors of all functions: InvalidArgument - mistakes in the descriptions of
// objects, of any rank, all of them: a null child, two children of one name, an
// attached object whose name is that of another child of the root; ranks pass
// different arguments; objects that are one on one rank and two on another. The
// name "save_counter" is taken. FailedPrecondition - the Checkpoint was moved
// from. What a function of Tracker::Bytes returned is returned as it is.
class Checkpoint {
 public:
  // Names and objects.
  using Objects = std::vector<std::pair<std::string, ObjectRef>>;

  // The objects become children of a root that has nothing else, in the order
  // of their names. Same on all ranks: the order of Checkpoints. Local.
  Checkpoint(const Comm& comm, Objects objects);
  // The same of objects in braces, also of none: {}. Local.
  Checkpoint(const Comm& comm,
             std::initializer_list<Objects::value_type> objects)
      : Checkpoint(comm, Objects(objects)) {}
  // `root` is the root of the graph, and the objects become further children of
  // it. One that the root has already under this name must be the same. Local.
  Checkpoint(const Comm& comm, ObjectRef root, Objects objects = {});
  ~Checkpoint();
  Checkpoint(Checkpoint&&) noexcept;
  Checkpoint& operator=(Checkpoint&&) noexcept;

  // Writes all objects as the step after the last one: <dir>/step_<n>, where n
  // is save_counter() + 1. Collective. The counter is saved as a child of the
  // root named "save_counter"; it keeps its old value if the save fails. The
  // first save after a Restore goes behind the newest step in `dir`, if an
  // older one was restored, unless options.overwrite is set; the result warns.
  // Same on all ranks: dir, options.
  // Errors: those of belay::Save, and those above.
  StatusOr<SaveResult> Save(const std::string& dir,
                            const SaveOptions& options = {});

  // As Save, with a path of its own: the directory of the step. Collective.
  StatusOr<SaveResult> SaveAs(const std::string& path,
                              const SaveOptions& options = {});

  // Writes all objects to the directory `path` and leaves the counter alone.
  // Collective. To be read with Read. The step number is the one at the end of
  // the path ("run/best_00000012": 12), or 0.
  // Same on all ranks: path, options. Errors: those of Save.
  StatusOr<SaveResult> Write(const std::string& path,
                             const SaveOptions& options = {});

  // Gives the objects the values of a checkpoint, as far as their names and
  // those in the checkpoint match; the status says how far. Collective.
  // `path` is a checkpoint or a directory of steps, of which the newest is
  // meant. Values in the checkpoint whose objects are not there yet stay
  // pending: see RestoreDeferred. Same on all ranks: path, options.
  // On an error before anything is read (the first two) all values are as they
  // were; after any other they may be partly restored. The save counter stays.
  // Errors: NotFound - no such checkpoint; FailedPrecondition - values have
  //   another dtype or shape than those stored, all of them, unless the options
  //   let them; DataLoss - damage; and those above.
  StatusOr<LoadStatus> Read(const std::string& path,
                            const RestoreOptions& options = {});

  // As Read, for what Save has written: the counter is restored as well, but
  // for errors. An empty path restores nothing, and its status fails all
  // assertions. Collective.
  StatusOr<LoadStatus> Restore(const std::string& path,
                               const RestoreOptions& options = {});

  // Gives objects that have come into being since the last call the values that
  // are pending for them. Collective. Of several restores the last one that has
  // a value gives it, whichever object came first. Checkpoints are opened only
  // if there is something to read from them. One that is gone by then is an
  // error if the last restore was from it; an older restore is forgotten then
  // (the status warns), and with the next restore if each of its values was
  // used by some rank. Returns the status of the last restore as it is now,
  // which knows nothing of values from older ones; InitializationOnly if there
  // was none.
  // Errors: those of Read; FailedPrecondition - the checkpoint of the last
  //   restore was replaced.
  StatusOr<LoadStatus> RestoreDeferred(const RestoreOptions& options = {});

  // The number of the last save, 0 before the first and if moved from. Local.
  int64_t save_counter() const;

  // The ranks that save and restore together; a Comm of nobody if moved from.
  // Local.
  const Comm& comm() const;

 private:
  friend class ManagedValues;

  std::unique_ptr<TrackedObjects> objects_;
};

}  // namespace belay

#endif  // BELAY_CHECKPOINT_H_
