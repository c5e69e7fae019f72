#include "core/process.h"

#include <limits.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <limits>
#include <random>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/integers.h"
#include "core/text.h"

namespace belay {

bool AreFollowed(Links links) {
  if (links == Links::kFollowed) return true;
  const char* const value = std::getenv("BELAY_FOLLOW_LINKS");
  return value != nullptr && std::string_view(value) == "1";
}

Status IsSymbolicLink(std::string_view operation, const std::string& path) {
  return absl::InvalidArgumentError(
      Cat(operation, " \"", path, "\": a symbolic link, which may lead out of ",
          "the directory (need a regular file); copy the file to its place, ",
          "or set BELAY_FOLLOW_LINKS=1 if you trust whoever made the link"));
}

std::string HostName() {
  char host[HOST_NAME_MAX + 1] = {};
  if (::gethostname(host, sizeof(host) - 1) != 0) host[0] = '\0';
  return host;
}

uint64_t NewNonce() {
  std::random_device device;
  return (uint64_t{device()} << 32) | device();
}

double UnixTime() {
  return absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch());
}

double SteadyUnixTime() {
  using Seconds = std::chrono::duration<double>;
  const auto now = [] {
    return Seconds(std::chrono::steady_clock::now().time_since_epoch()).count();
  };
  static const double ahead = UnixTime() - now();
  return now() + ahead;
}

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
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  if (!name.empty() || !ParseDigits(SlurmJobId(lookup), kMax)) return name;
  return VariableText(lookup, "SLURM_JOB_NAME");
}

std::string JobName() {
  return JobName([](const char* name) { return std::getenv(name); });
}

}  // namespace belay
