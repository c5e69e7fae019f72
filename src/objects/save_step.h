// Saving a numbered step of a Checkpoint, for who wants to know how it failed.

#ifndef BELAY_OBJECTS_SAVE_STEP_H_
#define BELAY_OBJECTS_SAVE_STEP_H_

#include <string>

#include "belay/options.h"
#include "belay/status.h"
#include "objects/tracked_objects.h"

namespace belay {

// As Checkpoint::SaveAs. Collective. `at_files` as in SaveJob.
StatusOr<SaveResult> SaveStep(TrackedObjects& objects, const std::string& path,
                              const SaveOptions& options, bool& at_files);

}  // namespace belay

#endif  // BELAY_OBJECTS_SAVE_STEP_H_
