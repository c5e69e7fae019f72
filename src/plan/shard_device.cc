#include "plan/shard_device.h"

#include <limits>
#include <optional>
#include <utility>

#include "base/status_macros.h"
#include "base/text.h"

namespace belay {
namespace {

Status CheckName(std::string_view what,
                 const std::optional<std::string>& name) {
  if (!name.has_value()) return absl::OkStatus();
  if (!name->empty() && name->find_first_of("/:") == name->npos) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      Cat(what, " (need a name without '/' and ':', found \"", *name, "\")"));
}

Status CheckNumber(std::string_view what, const std::optional<int>& number) {
  if (number.value_or(0) >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      Cat(what, " (need at least 0, found ", *number, ")"));
}

// The cause only.
Status CheckDevice(const DeviceSpec& device, int rank) {
  BELAY_RETURN_IF_ERROR(CheckName("job", device.job));
  BELAY_RETURN_IF_ERROR(CheckName("device type", device.device_type));
  BELAY_RETURN_IF_ERROR(CheckNumber("replica", device.replica));
  BELAY_RETURN_IF_ERROR(CheckNumber("device index", device.device_index));
  if (device.task.value_or(rank) == rank) return absl::OkStatus();
  return absl::InvalidArgumentError(Cat("the task is not this rank (need ",
                                        rank, ", found ", *device.task, ")"));
}

Status OfShard(const Shard& shard, const Status& cause) {
  if (cause.ok()) return cause;
  return Status(cause.code(),
                Cat("list \"", shard.key, "\": device \"",
                    DeviceText(shard.device), "\": ", cause.message()));
}

// Checks the devices, and finds the job that they name, or `job`.
StatusOr<std::string> FindJob(const std::vector<Shard>& shards,
                              const std::string& job, int rank) {
  const Shard* named = nullptr;
  for (const Shard& shard : shards) {
    if (shard.device == DeviceSpec()) continue;
    BELAY_RETURN_IF_ERROR(OfShard(shard, CheckDevice(shard.device, rank)));
    if (!shard.device.job.has_value()) continue;
    if (named == nullptr) named = &shard;
    if (*shard.device.job == *named->device.job) continue;
    return OfShard(shard, absl::InvalidArgumentError(Cat(
                              "a rank is a task of one job (need \"",
                              *named->device.job, "\" as key \"", named->key,
                              "\", found \"", *shard.device.job, "\")")));
  }
  return named == nullptr ? job : *named->device.job;
}

}  // namespace

DeviceSpec DefaultDevice(std::string_view job, int rank,
                         std::string_view layout, int64_t replica) {
  // A replica number that is none of a layout is refused where shards of all
  // ranks are compared.
  const bool counts = !layout.empty() && replica >= 0 &&
                      replica <= std::numeric_limits<int>::max();
  return RankDevice(job, counts ? static_cast<int>(replica) : 0, rank);
}

Status CompleteDevices(std::vector<Shard>& shards, const std::string& job,
                       int rank) {
  BELAY_ASSIGN_OR_RETURN(const std::string own, FindJob(shards, job, rank));
  for (Shard& shard : shards) {
    DeviceSpec base = DefaultDevice(own, rank, shard.layout, shard.replica);
    if (shard.device == DeviceSpec()) {
      shard.device = std::move(base);
      continue;
    }
    // By way of its text, which has one spelling for each type.
    BELAY_ASSIGN_OR_RETURN(
        shard.device, ParseDevice(DeviceText(MergeDevice(base, shard.device))));
  }
  return absl::OkStatus();
}

std::string OwnDevice(const DeviceSpec& device, const DeviceSpec& base) {
  DeviceSpec own;
  if (device.replica != base.replica) own.replica = device.replica;
  if (device.device_type != base.device_type ||
      device.device_index != base.device_index) {
    // An index without a type has no text.
    own.device_type = device.device_type;
    own.device_index = device.device_index;
  }
  return DeviceText(own);
}

}  // namespace belay
