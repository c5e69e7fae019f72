// Checks with libhdf5 that other programs can read a step.

#ifndef BELAY_STORAGE_VERIFY_HDF5_H_
#define BELAY_STORAGE_VERIFY_HDF5_H_

#include <string>
#include <vector>

#include "belay/status.h"
#include "plan/plan.h"

namespace belay {

// Does what FindHdf5Damage says, in this process. Returns the encoded lines.
// Errors: what the system says; those of ReadIndex.
StatusOr<std::string> FindDamageHere(const std::string& directory);

// Looks for every dataset of the data files and every array of the index as
// other programs do, by HDF5 in a process of its own, which reads the index
// again. An array of it must show the datasets that belay reads. Returns a line
// for each file in which one is not what the index says; the index is looked at
// where all data files are good.
// Errors: those of opening and reading files, and of starting a process;
//   FailedPrecondition - its program is not installed; DeadlineExceeded.
StatusOr<std::vector<std::string>> FindHdf5Damage(const std::string& directory,
                                                  const SavedCheckpoint& saved);

}  // namespace belay

#endif  // BELAY_STORAGE_VERIFY_HDF5_H_
