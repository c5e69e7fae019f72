#include "plan/policy.h"

#include <algorithm>
#include <exception>
#include <iterator>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_format.h"
#include "belay/values/sharding_policy.h"
#include "core/integers.h"
#include "core/status_macros.h"
#include "core/wire.h"
#include "plan/coverage.h"

namespace belay {
namespace {

// The cause only; the caller names the piece.
Status CheckPiece(const ShardableTensor& piece) {
  if (!IsKnownDType(static_cast<uint8_t>(piece.dtype))) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "unknown dtype (found number %d)", static_cast<int>(piece.dtype)));
  }
  BELAY_ASSIGN_OR_RETURN(const int64_t elements,
                         CheckedNumElements(piece.global_shape));
  BELAY_RETURN_IF_ERROR(CheckBox(piece.box, piece.global_shape));
  if (piece.dtype == DType::kString) {
    if (!piece.global_shape.empty()) {
      return absl::InvalidArgumentError(
          absl::StrFormat("a string is always a scalar (need shape [], found "
                          "%s)",
                          ShapeText(piece.global_shape)));
    }
    if (piece.bytes >= 0) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrFormat(
        "negative length (need 0 bytes or more, found %d)", piece.bytes));
  }
  if (elements > INT64_MAX / DTypeSize(piece.dtype)) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "the array has more than 2^63 - 1 bytes (%d elements of %d bytes)",
        elements, DTypeSize(piece.dtype)));
  }
  const int64_t need = PieceBytes(piece, piece.box);
  if (piece.bytes == need) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat(
      "bytes are not those of the box (need %d, found %d)", need, piece.bytes));
}

}  // namespace

int64_t PieceBytes(const ShardableTensor& like, const Box& box) {
  if (like.dtype == DType::kString) return like.bytes;
  return NumElements(box.shape) * DTypeSize(like.dtype);
}

DeviceSpec TaskOf(const DeviceSpec& device) {
  return {.job = device.job,
          .replica = device.replica,
          .task = device.task,
          .device_type = std::nullopt,
          .device_index = std::nullopt};
}

bool SameTask(const DeviceSpec& a, const DeviceSpec& b) {
  return a.task == b.task && a.job == b.job;
}

bool SameReplica(const DeviceSpec& a, const DeviceSpec& b) {
  return SameTask(a, b) && a.replica == b.replica;
}

Status CheckListed(const std::vector<ShardableTensor>& listed) {
  for (const ShardableTensor& piece : listed) {
    const Status cause = CheckPiece(piece);
    if (cause.ok()) continue;
    return absl::InvalidArgumentError(
        absl::StrFormat("list \"%s\": piece with box \"%s\": %s", piece.key,
                        BoxText(piece.box), cause.message()));
  }
  return absl::OkStatus();
}

Status CheckListedKey(const std::vector<const ShardableTensor*>& listed) {
  const ShardableTensor& first = *listed[0];
  if (listed.size() == 1) return absl::OkStatus();
  std::vector<const Box*> boxes;
  for (const ShardableTensor* piece : listed) {
    if (piece->dtype != first.dtype ||
        piece->global_shape != first.global_shape) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "list \"%s\": pieces of different arrays (%s %s and %s %s)",
          first.key, DTypeName(first.dtype), ShapeText(first.global_shape),
          DTypeName(piece->dtype), ShapeText(piece->global_shape)));
    }
    boxes.push_back(&piece->box);
  }
  if (const auto pair = FindOverlap(boxes)) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "list \"%s\": pieces overlap (box \"%s\" and box \"%s\")", first.key,
        BoxText(*boxes[pair->first]), BoxText(*boxes[pair->second])));
  }
  return absl::OkStatus();
}

// --- Sharding policy ---

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

// MaxShardSize: a greedy packer that cuts what does not fit.

namespace {

// More groups than anybody can want, and than rank 0 can be trusted to hold.
constexpr int64_t kMaxGroups = int64_t{1} << 22;

class Packer {
 public:
  explicit Packer(int64_t max_bytes) : max_bytes_(max_bytes) {}

  // Puts a listed piece into the open group, cut as far as needed.
  void Add(const ShardableTensor& piece) {
    piece_ = &piece;
    num_alone_ = 0;
    if (piece.dtype == DType::kString || IsEmpty(piece.box)) {
      PutWhole(piece.box, piece.bytes);
    } else {
      Pack(piece.box, 0);
    }
    if (num_alone_ > 0) Warn();
  }

  Grouping Take() {
    Grouping made = std::move(groups_);
    made.warnings = std::move(warnings_);
    std::move(alone_.begin(), alone_.end(), std::back_inserter(made.groups));
    return made;
  }

 private:
  // Puts all of `box` into groups. Its axes before `axis` have length 1.
  void Pack(Box box, size_t axis) {
    // An axis of length 1 cannot be cut: rows are counted on the next one.
    while (axis < box.shape.size() && box.shape[axis] == 1) ++axis;
    int64_t bytes = PieceBytes(*piece_, box);
    if (axis == box.shape.size()) return PutWhole(box, bytes);
    while (bytes > rest_) {
      const size_t cut_axis = ChooseAxis(box, bytes, axis);
      if (cut_axis == kNoAxis) return PackRows(box, axis);
      const int64_t slice_bytes = bytes / box.shape[cut_axis];
      const int64_t length = rest_ / slice_bytes;
      if (length == 0) {
        OpenGroup();
        continue;
      }
      Box part = box;
      part.shape[cut_axis] = length;
      Put(std::move(part), length * slice_bytes);
      box.offset[cut_axis] += length;
      box.shape[cut_axis] -= length;
      bytes -= length * slice_bytes;
    }
    Put(std::move(box), bytes);
  }

  // For a box of which not even one slice fits into an empty group.
  void PackRows(const Box& box, size_t axis) {
    Box row = box;
    row.shape[axis] = 1;
    for (int64_t i = 0; i < box.shape[axis]; ++i) {
      Pack(row, axis + 1);
      ++row.offset[axis];
    }
  }

  // Returns where to cut a box, or kNoAxis if no slice fits into a group. The
  // rest of the open group plays no part: it takes slices of the same kind.
  size_t ChooseAxis(const Box& box, int64_t bytes, size_t first) const {
    size_t best = kNoAxis;
    int64_t fewest = 0;
    for (size_t axis = first; axis < box.shape.size(); ++axis) {
      const int64_t slices = max_bytes_ / (bytes / box.shape[axis]);
      if (slices == 0) continue;
      // With whole rows, runs in the file are longest. They leave less than a
      // third of a group empty if two or more fit.
      if (axis == first && slices > 1) return first;
      const int64_t groups = CeilDivide(box.shape[axis], slices);
      if (best == kNoAxis || groups < fewest) {
        best = axis;
        fewest = groups;
      }
    }
    return best;
  }

  // For what cannot be cut.
  void PutWhole(const Box& box, int64_t bytes) {
    if (bytes > max_bytes_) {
      alone_.push_back({PartOf(box, bytes)});
      ++num_alone_;
      return;
    }
    if (bytes > rest_) OpenGroup();
    Put(box, bytes);
  }

  void Put(Box box, int64_t bytes) {
    if (groups_.empty()) OpenGroup();
    groups_.back().push_back(PartOf(std::move(box), bytes));
    rest_ -= bytes;
  }

  ShardableTensor PartOf(Box box, int64_t bytes) const {
    return {.key = piece_->key,
            .dtype = piece_->dtype,
            .global_shape = piece_->global_shape,
            .box = std::move(box),
            .device = piece_->device,
            .bytes = bytes};
  }

  void OpenGroup() {
    groups_.emplace_back();
    rest_ = max_bytes_;
  }

  void Warn() {
    warnings_.push_back(absl::StrFormat(
        "max shard size \"%s\": %d elements are too large and get a group each "
        "(need at most %d bytes, found %d)",
        piece_->key, num_alone_, max_bytes_, alone_.back()[0].bytes));
  }

  static constexpr size_t kNoAxis = SIZE_MAX;

  const int64_t max_bytes_;
  int64_t rest_ = 0;  // of the open group, the last of groups_
  std::vector<ShardGroup> groups_;
  std::vector<ShardGroup> alone_;
  std::vector<std::string> warnings_;

  const ShardableTensor* piece_ = nullptr;  // the piece that is being added
  int64_t num_alone_ = 0;                   // elements of it in alone_
};

// Refuses a limit that would fill the memory with groups. Elements above the
// limit are counted as what they are, groups of their own.
Status CheckLimit(const std::vector<ShardableTensor>& pieces,
                  int64_t max_bytes) {
  if (max_bytes < 1) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "max shard size: no group can hold anything (need 1 byte or more, "
        "found %d)",
        max_bytes));
  }
  int64_t least = 0;
  for (const ShardableTensor& piece : pieces) {
    if (piece.dtype == DType::kString) continue;  // never cut
    const int64_t groups =
        piece.bytes / std::max(max_bytes, DTypeSize(piece.dtype));
    if (groups > kMaxGroups - least) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "max shard size: the limit of %d bytes is too small (need at most %d "
          "groups, found more at key \"%s\")",
          max_bytes, kMaxGroups, piece.key));
    }
    least += groups;
  }
  return absl::OkStatus();
}

}  // namespace

ShardingPolicy MaxShardSize(int64_t max_bytes) {
  return {
      .description = absl::StrFormat("groups of at most %d bytes", max_bytes),
      .parameters = {{"max_bytes", absl::StrFormat("%d", max_bytes)}},
      .group = [max_bytes](const std::vector<ShardableTensor>& pieces)
          -> StatusOr<Grouping> {
        BELAY_RETURN_IF_ERROR(CheckLimit(pieces, max_bytes));
        Packer packer(max_bytes);
        for (const ShardableTensor& piece : pieces) packer.Add(piece);
        return packer.Take();
      }};
}

}  // namespace belay
