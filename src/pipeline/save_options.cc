#include "pipeline/save_options.h"

#include "core/status_macros.h"
#include "core/text.h"
#include "core/wire.h"
#include "format/chunked_dataset.h"
#include "hdf5/file.h"
#include "hdf5/program.h"
#include "plan/save_planner.h"

namespace belay {
namespace {

std::string NameArguments(std::string_view start, const SaveArgsFor& one) {
  return Cat(start, ": arguments for \"", one.keys, "\"");
}

}  // namespace

Status CheckSaveOptions(std::string_view start, const SaveOptions& options) {
  BELAY_RETURN_IF_ERROR(CheckRanges(start, options));
  BELAY_RETURN_IF_ERROR(
      AddPrefix(CheckDescription(options.sharding_policy), start));
  BELAY_RETURN_IF_ERROR(AddPrefix(CompileArgs(options.args).status(), start));
  for (const SaveArgsFor& one : options.args) {
    BELAY_RETURN_IF_ERROR(AddPrefix(h5::CheckCanWrite(one.args.filters),
                                    NameArguments(start, one)));
  }
  return absl::OkStatus();
}

Status CheckFiltersCanBeRead(std::string_view start,
                             const SaveOptions& options) {
  for (const SaveArgsFor& one : options.args) {
    if (h5::CanUndo(one.args.filters)) continue;
    BELAY_RETURN_IF_ERROR(AddPrefix(h5::CheckProgramCanRead(one.args.filters),
                                    NameArguments(start, one)));
  }
  return absl::OkStatus();
}

ReplicaChecks ChooseReplicaChecks(const SaveOptions& options) {
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
