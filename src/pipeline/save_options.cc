#include "pipeline/save_options.h"

#include "core/status_macros.h"
#include "core/text.h"
#include "core/wire.h"
#include "format/chunked_dataset.h"
#include "hdf5/file.h"
#include "hdf5/program.h"
#include "plan/policy.h"

namespace belay {
namespace {

// Adds which arguments have failed.
Status OfArguments(std::string_view start, const SaveArgsFor& one,
                   const Status& filters) {
  if (filters.ok()) return filters;
  return Status(filters.code(),
                absl::StrFormat("%s: arguments for \"%s\": %s", AbslView(start),
                                one.keys, filters.message()));
}

}  // namespace

Status CheckSaveOptions(std::string_view start, const SaveOptions& options) {
  BELAY_RETURN_IF_ERROR(CheckRanges(start, options));
  for (const Status& status : {CheckDescription(options.sharding_policy),
                               CompileArgs(options.args).status()}) {
    if (status.ok()) continue;
    return Status(status.code(),
                  absl::StrFormat("%s: %s", AbslView(start), status.message()));
  }
  for (const SaveArgsFor& one : options.args) {
    BELAY_RETURN_IF_ERROR(
        OfArguments(start, one, h5::CheckCanWrite(one.args.filters)));
  }
  return absl::OkStatus();
}

Status CheckFiltersCanBeRead(std::string_view start,
                             const SaveOptions& options) {
  for (const SaveArgsFor& one : options.args) {
    if (h5::CanUndo(one.args.filters)) continue;
    BELAY_RETURN_IF_ERROR(
        OfArguments(start, one, h5::CheckProgramCanRead(one.args.filters)));
  }
  return absl::OkStatus();
}

ReplicaChecks ChecksOf(const SaveOptions& options) {
  if (!options.check_replicas) return ReplicaChecks::kOncePerPlan;
  return *options.check_replicas ? ReplicaChecks::kEachSave
                                 : ReplicaChecks::kNone;
}

std::string OptionBytes(const ShardingPolicy& policy) {
  return Encode(PolicyHash(policy));
}

std::string OptionBytes(const std::optional<PreservationPolicy>& policy) {
  return policy ? Encode(std::pair(policy->description, policy->parameters))
                : "";
}

}  // namespace belay
