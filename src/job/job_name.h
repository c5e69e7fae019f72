// The name of the job, alone: what else its variables say may be unsound.

#ifndef BELAY_JOB_JOB_NAME_H_
#define BELAY_JOB_JOB_NAME_H_

#include <string>

#include "belay/manager/job.h"

namespace belay {

// The variable, or "".
std::string VariableText(const VariableLookup& lookup, const char* name);

// The number of the Slurm job as its variables have it, sound or not; "": none.
std::string SlurmJobId(const VariableLookup& lookup);

// BELAY_JOB_NAME; or the name of the Slurm job, if there is one; or "".
std::string JobName(const VariableLookup& lookup);

// That of this process.
std::string JobName();

}  // namespace belay

#endif  // BELAY_JOB_JOB_NAME_H_
