// Whether the program can read what a save would store.

#ifndef BELAY_HDF5_PROGRAM_FILTERS_H_
#define BELAY_HDF5_PROGRAM_FILTERS_H_

#include <vector>

#include "belay/status.h"
#include "belay/values/save_args.h"

namespace belay::h5 {

// As CheckCanRead in the program, which does not have what this process has
// registered itself. Asks once for each filter that it has. Local.
// Errors: those of CheckCanRead, ProgramFor and ChildProcess.
Status CheckProgramCanRead(const std::vector<Filter>& filters);

}  // namespace belay::h5

#endif  // BELAY_HDF5_PROGRAM_FILTERS_H_
