// The program in which libhdf5 reads: where it lies, and which filters it has.

#ifndef BELAY_HDF5_PROGRAM_H_
#define BELAY_HDF5_PROGRAM_H_

#include <span>

#include "belay/values/save_args.h"

namespace belay::h5 {

// As CheckCanRead in the program, which does not have what this process has
// registered itself. Asks once for each filter that it has.
// Errors: those of CheckCanRead, ProgramFor and ChildProcess.
Status CheckProgramCanRead(const std::vector<Filter>& filters);

// The program in which libhdf5 reads what belay did not write, or what only it
// can read: read-hdf5, installed with the library.

// Its two tasks: to answer a GuardedFile, or FindHdf5Damage.
inline constexpr char kReadsFile[] = "file";
inline constexpr char kReadsStep[] = "step";

// Returns what starts it to do that: path and arguments, with the kinds of
// plugins that this process loads and the folders in which it looks for them.
// It lies in the folder belay beside the library, or beside a program that has
// the library in itself; or where the library was to be installed. Asks HDF5,
// one thread at a time. Errors: FailedPrecondition - it is in neither; those of
// HDF5.
StatusOr<std::vector<std::string>> ProgramFor(const std::string& work);

// For the program: loads plugins of these kinds from these folders, and no
// others. Before anything else that calls HDF5.
// Errors: those of HDF5.
Status UsePlugins(std::string_view kinds, std::span<const char* const> folders);

}  // namespace belay::h5

#endif  // BELAY_HDF5_PROGRAM_H_
