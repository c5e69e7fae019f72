// The environment of the process: its host, the time, its job's name, and its
// policy on symbolic links.

#ifndef BELAY_CORE_PROCESS_H_
#define BELAY_CORE_PROCESS_H_

#include "belay/manager/job.h"

namespace belay {

// Whether a symbolic link may be followed. Links that the user named are
// followed. Links found in a directory or named in another file are not: their
// writer could choose which files are read.
enum class Links : uint8_t { kRefused, kFollowed };

// Also returns true for kRefused if BELAY_FOLLOW_LINKS is 1 in the environment.
bool AreFollowed(Links links);

Status IsSymbolicLink(std::string_view operation, const std::string& path);

std::string HostName();  // "" if unknown

// Returns a random number that is unique in practice.
uint64_t NewNonce();

// Returns seconds since 1970 by the system clock, which may be set at any time.
double UnixTime();

// Returns UnixTime() at the first call, then advances with a steady clock.
double SteadyUnixTime();

std::string VariableText(const VariableLookup& lookup, const char* name);

// Returns the Slurm job ID from the environment, unchecked; "" if there is
// none.
std::string SlurmJobId(const VariableLookup& lookup);

// Returns BELAY_JOB_NAME, else the Slurm job's name, else "".
std::string JobName(const VariableLookup& lookup);
std::string JobName();  // from this process's environment

}  // namespace belay

#endif  // BELAY_CORE_PROCESS_H_
