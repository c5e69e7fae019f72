#include "belay/values/sharding_policy.h"

#include <exception>
#include <optional>
#include <tuple>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "bytes/fingerprint.h"
#include "bytes/wire.h"
#include "plan/policy/apply_policy.h"
#include "plan/policy/group_by_task.h"
#include "plan/policy/listed_pieces.h"

namespace belay {
namespace {

using TaskName = std::tuple<std::optional<std::string>, std::optional<int>,
                            std::optional<int>>;

// The pieces of each task, in the order in which they were listed.
std::vector<TaskPieces> SortByTask(const std::vector<ShardableTensor>& listed) {
  std::vector<TaskPieces> tasks;
  absl::flat_hash_map<TaskName, size_t> positions;
  size_t position = 0;
  for (const ShardableTensor& piece : listed) {
    const DeviceSpec& task = piece.device;
    // Pieces of a task usually follow each other.
    if (tasks.empty() || !SameReplica(tasks[position][0].device, task)) {
      const auto [it, fresh] = positions.try_emplace(
          {task.job, task.replica, task.task}, tasks.size());
      if (fresh) tasks.emplace_back();
      position = it->second;
    }
    tasks[position].push_back(piece);
  }
  return tasks;
}

// Policies are code of others: whatever they throw becomes a Status.
StatusOr<Grouping> CallGuarded(const ShardingPolicy& policy,
                               const std::vector<ShardableTensor>& pieces) {
  try {
    return policy.group(pieces);
  } catch (const std::exception& thrown) {
    return absl::InternalError(absl::StrFormat("exception: %s", thrown.what()));
  } catch (const std::string& thrown) {
    return absl::InternalError(absl::StrFormat("exception: %s", thrown));
  } catch (const char* thrown) {
    return absl::InternalError(absl::StrFormat("exception: %s", thrown));
  } catch (int thrown) {
    return absl::InternalError(absl::StrFormat("exception: int %d", thrown));
  } catch (...) {
    return absl::InternalError("exception of a type without text");
  }
}

}  // namespace

StatusOr<Grouping> GroupByTask::operator()(
    const std::vector<ShardableTensor>& pieces) const {
  std::vector<ShardGroup> groups;
  if (!pieces.empty()) groups.push_back(pieces);
  return Grouping(std::move(groups));
}

ShardingPolicy ShardByTask() {
  return {.description = "one group per task",
          .parameters = {{"version", "1"}},
          .group = GroupByTask()};
}

uint64_t PolicyHash(const ShardingPolicy& policy) {
  WireWriter writer;
  writer.PutText(policy.description);
  for (const auto& [name, value] : policy.parameters) {
    writer.PutText(name);
    writer.PutText(value);
  }
  return Fingerprint(writer.bytes());
}

Status CheckDescription(const ShardingPolicy& policy) {
  if (!policy.description.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "the sharding policy has no description, which names it in errors (need "
      "a text, found \"\"); set `description`");
}

bool VouchesForItself(const ShardingPolicy& policy) {
  return !policy.parameters.empty();
}

StatusOr<std::vector<Grouping>> ApplyPolicy(
    const ShardingPolicy& policy, const std::vector<ShardableTensor>& listed) {
  return ApplyToTasks(policy, SortByTask(listed));
}

StatusOr<std::vector<Grouping>> ApplyToTasks(
    const ShardingPolicy& policy, const std::vector<TaskPieces>& tasks) {
  BELAY_RETURN_IF_ERROR(CheckDescription(policy));
  if (policy.group == nullptr) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "policy \"%s\": no function to call; set `group`", policy.description));
  }
  for (const TaskPieces& pieces : tasks) {
    BELAY_RETURN_IF_ERROR(CheckListed(pieces));
  }
  std::vector<Grouping> groupings;
  std::string violations;  // of all tasks
  for (const TaskPieces& pieces : tasks) {
    StatusOr<Grouping> made = CallGuarded(policy, pieces);
    if (!made.ok()) {
      return Status(
          made.status().code(),
          absl::StrFormat("policy \"%s\": task \"%s\": %s", policy.description,
                          DeviceText(TaskOf(pieces[0].device)),
                          made.status().message()));
    }
    const Status valid =
        ValidateGroups(made->groups, pieces, policy.description);
    if (!valid.ok()) {
      if (!violations.empty()) violations += '\n';
      violations += std::string(valid.message());
    }
    groupings.push_back(std::move(*made));
  }
  if (!violations.empty()) return absl::InvalidArgumentError(violations);
  return groupings;
}

}  // namespace belay
