// The values of a manager: the objects of a Checkpoint, or a State.

#ifndef BELAY_MANAGER_MANAGED_VALUES_H_
#define BELAY_MANAGER_MANAGED_VALUES_H_

#include <cstdint>
#include <string>

#include "belay/checkpoint.h"
#include "belay/checkpoint_manager.h"
#include "belay/comm.h"
#include "belay/manager/manager_options.h"
#include "belay/options.h"
#include "belay/save_restore.h"
#include "belay/state.h"
#include "belay/status.h"
#include "core/agreed.h"
#include "save/background_save.h"

namespace belay {

// Move only. Borrows all that it is made of.
class ManagedValues {
 public:
  explicit ManagedValues(Checkpoint& checkpoint) : checkpoint_(&checkpoint) {}
  ManagedValues(const Comm& comm, const State& state)
      : comm_(&comm), state_(&state) {}

  // Returns the communicator; a null one if the Checkpoint was moved from.
  const Comm& comm() const;

  // Returns the number before that of the next step: the save counter of a
  // Checkpoint, or the last step of a State that was saved or restored.
  int64_t save_counter() const;

  // Saves the values as `step` to the directory `path`. Collective; agreed.
  // `at_files` as in SaveJob.
  // Errors: those of Checkpoint::SaveAs or Save.
  Agreed<SaveResult> Save(const std::string& path, int64_t step,
                          const SaveOptions& options, bool& at_files);

  // Begins a save in the background. Collective; agreed.
  Agreed<PendingSave> Begin(BackgroundSaver& saver, const std::string& path,
                            int64_t step, const SaveOptions& options,
                            bool& at_files);

  // Restores the values from `path`, which is `step`. Collective; agreed. For a
  // State, fails if less than `match` is stored.
  // Errors: those of Checkpoint::Restore or Restore.
  Agreed<ManagedRestore> Restore(const std::string& path, int64_t step,
                                 RestoreMatch match,
                                 const RestoreOptions& options);

  // Checks that as much was restored as `match` requires. Local, and equal on
  // all ranks.
  // Errors: FailedPrecondition - less; names what was not.
  Status CheckMatch(const ManagedRestore& restored, RestoreMatch match) const;

 private:
  Agreed<ManagedRestore> RestoreState(const std::string& path, int64_t step,
                                      RestoreMatch match,
                                      const RestoreOptions& options);

  // Either this,
  Checkpoint* checkpoint_ = nullptr;
  // or these.
  const Comm* comm_ = nullptr;
  const State* state_ = nullptr;
  int64_t last_step_ = 0;
  PlanCache plan_cache_;
};

}  // namespace belay

#endif  // BELAY_MANAGER_MANAGED_VALUES_H_
