// The surroundings of the process: its host, the time, the name of its job, and
// the symbolic links that it follows.

#ifndef BELAY_CORE_PROCESS_H_
#define BELAY_CORE_PROCESS_H_

#include "belay/manager/job.h"

namespace belay {

// A symbolic link is followed if the user has named it. A name that was found
// in a directory or in another file would let its writer choose the files to
// read.
enum class Links : uint8_t { kRefused, kFollowed };

// Returns true for kRefused too if BELAY_FOLLOW_LINKS is 1 in the environment.
bool AreFollowed(Links links);

Status IsSymbolicLink(std::string_view operation, const std::string& path);

std::string HostName();  // "" if the system has none

// Returns a random number that nobody else has.
uint64_t NewNonce();

// Seconds since 1970 by the system's clock, which somebody may set.
double UnixTime();

// The same at the first call, then by a clock that nobody can set.
double SteadyUnixTime();

std::string VariableText(const VariableLookup& lookup, const char* name);

// The number of the Slurm job in its variables, unchecked; "" if there is none.
std::string SlurmJobId(const VariableLookup& lookup);

// BELAY_JOB_NAME, or the name of the Slurm job, or "".
std::string JobName(const VariableLookup& lookup);
std::string JobName();  // by the environment of this process

}  // namespace belay

#endif  // BELAY_CORE_PROCESS_H_
