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

// Move only. Borrows its constructor's arguments.
class ManagedValues {
 public:
  explicit ManagedValues(Checkpoint& checkpoint) : checkpoint_(&checkpoint) {}
  ManagedValues(const Comm& comm, const State& state)
      : comm_(&comm), state_(&state) {}

  // Returns the communicator, which is null if the Checkpoint was moved from.
  const Comm& comm() const;

  // Returns the number before the next step's default number: the save counter
  // of a Checkpoint, or the step of a State that was last saved or restored.
  int64_t save_counter() const;

  // Saves the values as `step` to the directory `path`. `at_files` is that of
  // SaveJob. Collective; agreed.
  // Errors: those of Checkpoint::SaveAs or Save.
  Agreed<SaveResult> Save(const std::string& path, int64_t step,
                          const SaveOptions& options, bool& at_files);

  // Begins a save in the background. Collective; agreed.
  Agreed<PendingSave> Begin(BackgroundSaver& saver, const std::string& path,
                            int64_t step, const SaveOptions& options,
                            bool& at_files);

  // Restores the values from `path`, the directory of `step`. For a State,
  // fails if less is stored than `match` requires. Collective; agreed.
  // Errors: those of Checkpoint::Restore or Restore.
  Agreed<ManagedRestore> Restore(const std::string& path, int64_t step,
                                 RestoreMatch match,
                                 const RestoreOptions& options);

  // Checks that as much was restored as `match` requires. Local, and equal on
  // all ranks.
  // Errors: FailedPrecondition - less was restored; the message names what is
  //   missing.
  Status CheckMatch(const ManagedRestore& restored, RestoreMatch match) const;

 private:
  Agreed<ManagedRestore> RestoreState(const std::string& path, int64_t step,
                                      RestoreMatch match,
                                      const RestoreOptions& options);

  // Either this member is set,
  Checkpoint* checkpoint_ = nullptr;
  // or these are.
  const Comm* comm_ = nullptr;
  const State* state_ = nullptr;
  int64_t last_step_ = 0;
  PlanCache plan_cache_;
};

}  // namespace belay

#endif  // BELAY_MANAGER_MANAGED_VALUES_H_
