// What rank 0 does once all ranks have written.

#ifndef BELAY_ASYNC_COMMIT_WORK_H_
#define BELAY_ASYNC_COMMIT_WORK_H_

#include <vector>

#include "belay/status.h"
#include "plan/plan.h"
#include "save/save_stages.h"

namespace belay {

// Owned by the thread while that works on it.
struct CommitWork {
  StepToFinish finish;
  std::vector<StoredFile> files;
  bool is_read_back = false;  // the files are good, whatever they look like
  bool has_holes = false;     // set: they have to be read back first
  StepInProgress step;
};

// Looks whether the files have the right size, and no holes unless they were
// read back; then finishes the files of the step and gives it its name. No MPI
// and no HDF5. Local; rank 0 does it.
// Errors: those of CheckWrittenFile, FinishFiles and NameStep.
Status CommitWithoutProgram(CommitWork& work);

// The same with the program's functions, in the thread of the program. Rank 0
// only.
// Errors: those above, of FinalizeHandlers and AskBeforeCommit.
Status CommitWithProgram(const SaveFrame& frame,
                         const std::vector<TypeHandlerPtr>& finalizers,
                         CommitWork& work);

}  // namespace belay

#endif  // BELAY_ASYNC_COMMIT_WORK_H_
