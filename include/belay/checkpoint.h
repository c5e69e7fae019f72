// Saving and restoring a graph of objects.
//
//   belay::Checkpoint checkpoint(*comm, {{"model", model}, {"adam", adam}});
//   auto saved = checkpoint.Save("run");            // run/step_00000001
//   auto status = checkpoint.Restore("run");        // the newest step
//   if (status.ok()) std::cout << status->ToString();
//
// Every save and restore asks the objects again what they track (trackable.h),
// so objects may come and go in between. Ranks may hold different objects;
// objects with the same path on several ranks are one object.
//
// This is TensorFlow's tf.train.Checkpoint, and its DTensorCheckpoint for
// values with layouts.

#ifndef BELAY_CHECKPOINT_H_
#define BELAY_CHECKPOINT_H_

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "belay/comm.h"
#include "belay/objects/load_status.h"
#include "belay/objects/trackable.h"
#include "belay/options.h"
#include "belay/save_restore.h"
#include "belay/status.h"

namespace belay {

class AsyncSaver;
class ManagedValues;
struct TrackedObjects;

// Move only. Borrows the Comm and the objects. A Checkpoint may have no objects
// at first and get them later, through what it refers to.
//
// Errors of all functions: InvalidArgument - all mistakes in the descriptions
//   of objects on any rank: a null child, two children with the same name, an
//   attached object with the name of another child of the root; ranks pass
//   different arguments; one object on one rank is two objects on another. The
//   name "save_counter" is reserved. FailedPrecondition - the Checkpoint was
//   moved from. An error that a function of Tracker::Bytes returns is returned
//   unchanged.
class Checkpoint {
 public:
  // Pairs of a name and an object.
  using Objects = std::vector<std::pair<std::string, ObjectRef>>;

  // The objects become the only children of a new root, in the order of their
  // names. All ranks must create Checkpoints in the same order. Local.
  Checkpoint(const Comm& comm, Objects objects);
  // The same for objects in braces, or none: {}. Local.
  Checkpoint(const Comm& comm,
             std::initializer_list<Objects::value_type> objects)
      : Checkpoint(comm, Objects(objects)) {}
  // `root` is the root of the graph, and the objects become further children of
  // it. If the root already has a child of that name, it must be the same
  // object. Local.
  Checkpoint(const Comm& comm, ObjectRef root, Objects objects = {});
  ~Checkpoint();
  Checkpoint(Checkpoint&&) noexcept;
  Checkpoint& operator=(Checkpoint&&) noexcept;

  // Writes all objects as the next step: <dir>/step_<n>, where n is
  // save_counter() + 1. Collective. The counter is saved as a child of the root
  // named "save_counter"; it keeps its old value if the save fails. If an older
  // step was restored and options.overwrite is not set, the next save gets a
  // number after the newest step in `dir`, and the result warns about it. `dir`
  // and `options` must be equal on all ranks.
  // Errors: those of belay::Save, and those above.
  StatusOr<SaveResult> Save(const std::string& dir,
                            const SaveOptions& options = {});

  // Writes all objects to the directory `path`, such as "run/best", without
  // incrementing the save counter. Collective. The step number is the one at
  // the end of the path ("run/best_00000012": 12), or 0. `path` and `options`
  // must be equal on all ranks. (TensorFlow's write.)
  // Errors: those of Save.
  StatusOr<SaveResult> SaveAs(const std::string& path,
                              const SaveOptions& options = {});

  // Restores objects from a checkpoint as far as their names match the stored
  // ones; the returned status tells how far. Collective. `path` is a checkpoint
  // or a directory of steps, whose newest step is read. Stored values whose
  // objects do not exist yet stay pending: see RestoreDeferred. The save
  // counter is restored if the checkpoint has one. An empty path restores
  // nothing, and its status fails all assertions. `path` and `options` must be
  // equal on all ranks. (TensorFlow's restore and read.) After an error that
  // occurs before anything is read (NotFound and FailedPrecondition), all
  // values are unchanged; after any other error, they may be partly restored.
  // The save counter does not change on an error.
  // Errors: NotFound - no such checkpoint; FailedPrecondition - values are
  //   stored with another dtype or shape that the options do not allow, names
  //   all of them; DataLoss - damage; and those above.
  StatusOr<LoadStatus> Restore(const std::string& path,
                               const RestoreOptions& options = {});

  // Restores pending values into objects that were created since the last call.
  // Collective. If several restores have a value, the last of them provides it,
  // regardless of the order in which objects were created. A checkpoint is
  // opened only if there is something to read from it. If the checkpoint of the
  // last restore no longer exists then, that is an error; an older restore
  // whose checkpoint no longer exists is dropped, and the status warns. The
  // next restore also drops an older one if each of its values was used by some
  // rank. Returns the current status of the last restore, which does not cover
  // values from older ones; InitializationOnly if there was none.
  // Errors: those of Restore; FailedPrecondition - the checkpoint of the last
  //   restore was replaced.
  StatusOr<LoadStatus> RestoreDeferred(const RestoreOptions& options = {});

  // Returns the number of the last save; 0 before the first, or if moved from.
  // Local.
  int64_t save_counter() const;

  // Returns the communicator of the ranks that save and restore together; a
  // Comm without ranks if moved from. Local.
  const Comm& comm() const;

 private:
  friend class AsyncSaver;
  friend class ManagedValues;

  std::unique_ptr<TrackedObjects> objects_;
};

}  // namespace belay

#endif  // BELAY_CHECKPOINT_H_
