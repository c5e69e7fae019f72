// Saving the objects of a Checkpoint, for those who carry out the save in their
// own way.

#ifndef BELAY_OBJECTS_SAVE_STEP_H_
#define BELAY_OBJECTS_SAVE_STEP_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/functional/function_ref.h"
#include "belay/options.h"
#include "belay/status.h"
#include "objects/tracked_objects.h"
#include "save/save_at.h"

namespace belay {

// Carries out a save, such as SaveAt. Collective; agreed.
using SaveFunction =
    absl::FunctionRef<Status(const SaveJob& job, const SaveOptions& options)>;

// Makes a job of all objects as they are, and has it carried out. Collective;
// agreed. `at_files` as in SaveJob; may be null.
// Errors: those of descriptions, and those of `save`.
Status SaveObjects(TrackedObjects& objects, const std::string& path,
                   const SaveOptions& options, bool* at_files,
                   SaveFunction save);

// The same for a step that counts: one more than the save counter. On an error
// the counter is what it was. Collective; agreed.
Status SaveStepBy(TrackedObjects& objects, const std::string& path,
                  const SaveOptions& options, bool* at_files,
                  SaveFunction save);

// SaveStepBy, with SaveAt. Collective.
StatusOr<SaveResult> SaveStep(TrackedObjects& objects, const std::string& path,
                              const SaveOptions& options, bool& at_files);

// Which number the next step of a directory gets.
struct NextStep {
  int64_t restored = 0;  // the save counter as it was
  int64_t newest = 0;    // of the steps in the directory
  int64_t passed = 0;    // the step gets the number behind this one
};

// Finds that number, and sets the counter to the one before it. Collective;
// agreed.
StatusOr<NextStep> PassNewerSteps(TrackedObjects& objects,
                                  const std::string& dir,
                                  const SaveOptions& options);

// What the end of a step means for the save counter, which has its number by
// now: nothing if another save or restore has changed that since. Local.
std::function<void(bool ok)> EndOfStep(TrackedObjects& objects,
                                       const NextStep& next);

// Says what is unusual about the number, or nothing. Local.
std::string NumberWarning(const std::string& dir, const NextStep& next);

}  // namespace belay

#endif  // BELAY_OBJECTS_SAVE_STEP_H_
