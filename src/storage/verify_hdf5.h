// Whether other programs can read a step, asked of libhdf5.

#ifndef BELAY_STORAGE_VERIFY_HDF5_H_
#define BELAY_STORAGE_VERIFY_HDF5_H_

#include <string>
#include <vector>

#include "belay/status.h"
#include "plan/plan.h"

namespace belay {

// The part of FindHdf5Damage that calls HDF5.

// Does what FindHdf5Damage says, in this process. Returns the lines as a
// WireReader gets texts.
// Errors: what the system says; those of ReadIndex.
StatusOr<std::string> FindDamageHere(const std::string& directory);

// What other programs read of a step.

// Looks for every dataset of the data files and every array of the index as
// other programs do, by HDF5 in a process of its own, which reads the index
// again. An array of it must show the datasets that belay reads. Returns a line
// for each file in which one is not what the index says; the index is looked at
// where all data files are good. Errors: what the system says when a
// file is opened or read, or a process is
//   started; FailedPrecondition - its program is not installed;
//   DeadlineExceeded.
StatusOr<std::vector<std::string>> FindHdf5Damage(const std::string& directory,
                                                  const SavedCheckpoint& saved);

}  // namespace belay

#endif  // BELAY_STORAGE_VERIFY_HDF5_H_
