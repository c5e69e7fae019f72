#include "job/job_name.h"

#include <cstdint>
#include <cstdlib>
#include <limits>

#include "geometry/digits.h"

namespace belay {

std::string VariableText(const VariableLookup& lookup, const char* name) {
  const char* value = lookup(name);
  return value == nullptr ? "" : value;
}

std::string SlurmJobId(const VariableLookup& lookup) {
  std::string id = VariableText(lookup, "SLURM_JOB_ID");
  return id.empty() ? VariableText(lookup, "SLURM_JOBID") : id;
}

std::string JobName(const VariableLookup& lookup) {
  const std::string name = VariableText(lookup, "BELAY_JOB_NAME");
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  if (!name.empty() || !ParseDigits(SlurmJobId(lookup), kMost)) return name;
  return VariableText(lookup, "SLURM_JOB_NAME");
}

std::string JobName() {
  return JobName([](const char* name) { return std::getenv(name); });
}

}  // namespace belay
