// What the process knows of its surroundings: its host, the time, a nonce, the
// name of its job, and which symbolic links it follows.

#ifndef BELAY_CORE_PROCESS_H_
#define BELAY_CORE_PROCESS_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "belay/manager/job.h"
#include "belay/status.h"

namespace belay {

// Which symbolic links are followed.

// Whether a file may be a symbolic link: one that the user has named may; one
// whose name was found in a directory, or in another file, would let whoever
// made these choose what is read.
enum class Links : uint8_t { kRefused, kFollowed };

// Whether such a link is followed: also refused ones if BELAY_FOLLOW_LINKS is 1
// in the environment.
bool AreFollowed(Links links);

// The error for one that is not.
Status IsSymbolicLink(std::string_view operation, const std::string& path);

// The name of this machine.

// Returns the name that the system gives this host; "" if it gives none.
std::string HostName();

// Numbers that tell one writer from all others.

// Returns a random number that nobody else has.
uint64_t NewNonce();

// The time of day.

// Seconds since 1970 by the system's clock, which somebody may set.
double UnixTime();

// The same as of the first call in this process, and from then on by a clock
// that nobody can set: the difference of two of these is the time between them.
double SteadyUnixTime();

// The name of the job, alone: what else its variables say may be unsound.

// The variable, or "".
std::string VariableText(const VariableLookup& lookup, const char* name);

// The number of the Slurm job as its variables have it, sound or not; "": none.
std::string SlurmJobId(const VariableLookup& lookup);

// BELAY_JOB_NAME; or the name of the Slurm job, if there is one; or "".
std::string JobName(const VariableLookup& lookup);

// That of this process.
std::string JobName();

}  // namespace belay

#endif  // BELAY_CORE_PROCESS_H_
