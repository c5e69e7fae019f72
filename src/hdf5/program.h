// The program in which libhdf5 reads: where it is, and which filters it has.

#ifndef BELAY_HDF5_PROGRAM_H_
#define BELAY_HDF5_PROGRAM_H_

#include <span>

#include "belay/values/save_args.h"

namespace belay::h5 {

// Like CheckCanRead, but in the program, which lacks filters that only this
// process has registered. Asks only once for each filter that the program has.
// Errors: those of CheckCanRead, ProgramFor and ChildProcess.
Status CheckProgramCanRead(const std::vector<Filter>& filters);

// The program in which libhdf5 reads files that belay did not write or that
// only libhdf5 can read: read-hdf5, installed with the library.

// The program's two tasks: serving a GuardedFile, or FindHdf5Damage.
inline constexpr char kReadsFile[] = "file";
inline constexpr char kReadsStep[] = "step";

// Returns the command that starts the program for a task: its path and
// arguments, including the kinds of plugins that this process loads and its
// plugin folders. The program is in the folder "belay" next to the library, or
// next to a program that the library is linked into; or where the library was
// to be installed. Calls HDF5, in one thread at a time.
// Errors: FailedPrecondition - it is in neither; those of HDF5.
StatusOr<std::vector<std::string>> ProgramFor(const std::string& work);

// For use in the program: allows only plugins of these kinds, and only from
// these folders. Call it before anything else that uses HDF5.
// Errors: those of HDF5.
Status UsePlugins(std::string_view kinds, std::span<const char* const> folders);

}  // namespace belay::h5

#endif  // BELAY_HDF5_PROGRAM_H_
