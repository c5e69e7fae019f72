#include <exception>
#include <iterator>
#include <numeric>
#include <tuple>

#include "absl/container/flat_hash_map.h"
#include "core/box_tiling.h"
#include "core/integers.h"
#include "core/status_macros.h"
#include "plan/save_planner.h"
#include "plan/shards.h"

namespace belay {
namespace {

// Returns the size in bytes of a box of the array that `like` is a piece of.
// For a string, this is the size of `like`.
int64_t PieceBytes(const ShardableTensor& like, const Box& box) {
  if (like.dtype == DType::kString) return like.bytes;
  return NumElements(box.shape) * DTypeSize(like.dtype);
}

// Errors state only the cause; the caller adds the name of the piece.
Status CheckPiece(const ShardableTensor& piece) {
  if (!IsKnownDType(static_cast<uint8_t>(piece.dtype))) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "unknown dtype (found number %d)", static_cast<int>(piece.dtype)));
  }
  BELAY_RETURN_IF_ERROR(CheckArrayForm(piece.dtype, piece.global_shape));
  BELAY_RETURN_IF_ERROR(CheckBox(piece.box, piece.global_shape));
  if (piece.dtype == DType::kString && piece.bytes < 0) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "negative length (need 0 bytes or more, found %d)", piece.bytes));
  }
  const int64_t need = PieceBytes(piece, piece.box);
  if (piece.bytes == need) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat(
      "bytes are not those of the box (need %d, found %d)", need, piece.bytes));
}

// Returns the job, replica and task of a device, without its type.
DeviceSpec GetTask(const DeviceSpec& device) {
  return {.job = device.job,
          .replica = device.replica,
          .task = device.task,
          .device_type = std::nullopt,
          .device_index = std::nullopt};
}

// Returns true if two devices belong to one process, which may hold several
// replicas.
bool SameTask(const DeviceSpec& a, const DeviceSpec& b) {
  return a.task == b.task && a.job == b.job;
}

bool SameReplica(const DeviceSpec& a, const DeviceSpec& b) {
  return SameTask(a, b) && a.replica == b.replica;
}

// Checks each piece by itself.
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

// Checks one or more pieces of one key against each other.
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

}  // namespace

// ValidateGroups: assigns returned boxes to the listed boxes that they are
// parts of, then checks each listed box separately. Takes near-linear time in
// the number of boxes.

namespace {

constexpr int64_t kMaxLines = 20;

// Collects violations, one per line, up to kMaxLines.
class Violations {
 public:
  explicit Violations(std::string_view description)
      : description_(description) {}

  void Add(std::string_view where, std::string_view cause) {
    if (++count_ > kMaxLines) return;
    text_ += Cat(count_ == 1 ? "" : "\n", "policy \"", description_,
                 "\": ", where, ": ", cause);
  }

  Status ToStatus() const {
    if (count_ == 0) return absl::OkStatus();
    if (count_ <= kMaxLines) return absl::InvalidArgumentError(text_);
    return absl::InvalidArgumentError(
        Cat(text_, "\nand ", count_ - kMaxLines, " more"));
  }

 private:
  std::string_view description_;
  std::string text_;
  int64_t count_ = 0;
};

struct ReturnedPiece {
  const ShardableTensor* piece = nullptr;
  size_t group = 0;
};

struct KeyPieces {
  std::vector<const ShardableTensor*> listed;
  std::vector<ReturnedPiece> returned;  // only boxes inside the array
};

struct ListedKeys {
  std::vector<KeyPieces> pieces;  // in the order in which they were listed
  absl::flat_hash_map<std::string_view, size_t> positions;
};

std::string Name(const ShardableTensor& piece) {
  return absl::StrFormat("key \"%s\" box \"%s\"", piece.key,
                         BoxText(piece.box));
}

std::string Name(const ReturnedPiece& returned) {
  return absl::StrFormat("group %d: %s", returned.group, Name(*returned.piece));
}

template <typename T>
std::string NeedFound(std::string_view cause, const T& need, const T& found) {
  return Cat(cause, " (need ", need, ", found ", found, ")");
}

std::string TaskText(const DeviceSpec& device) {
  return Cat("\"", DeviceText(GetTask(device)), "\"");
}

StatusOr<ListedKeys> SortListed(const std::vector<ShardableTensor>& listed) {
  BELAY_RETURN_IF_ERROR(CheckListed(listed));
  ListedKeys keys;
  for (const ShardableTensor& piece : listed) {
    const auto [it, fresh] =
        keys.positions.try_emplace(piece.key, keys.pieces.size());
    if (fresh) keys.pieces.emplace_back();
    keys.pieces[it->second].listed.push_back(&piece);
  }
  for (const KeyPieces& key : keys.pieces) {
    BELAY_RETURN_IF_ERROR(CheckListedKey(key.listed));
  }
  return keys;
}

// Checks a piece by itself.
void CheckReturned(const ReturnedPiece& returned, ListedKeys& keys,
                   Violations& violations) {
  const ShardableTensor& piece = *returned.piece;
  const auto key = keys.positions.find(piece.key);
  if (key == keys.positions.end()) {
    return violations.Add(Name(returned), "added: no such key was listed");
  }
  KeyPieces& pieces = keys.pieces[key->second];
  const ShardableTensor& listed = *pieces.listed[0];
  if (piece.dtype != listed.dtype) {
    violations.Add(Name(returned),
                   NeedFound("dtype altered", DTypeName(listed.dtype),
                             DTypeName(piece.dtype)));
  }
  if (piece.global_shape != listed.global_shape) {
    violations.Add(Name(returned), NeedFound("global shape altered",
                                             ShapeText(listed.global_shape),
                                             ShapeText(piece.global_shape)));
  }
  const Status inside = CheckBox(piece.box, listed.global_shape);
  if (!inside.ok()) {
    return violations.Add(Name(returned), std::string(inside.message()));
  }
  pieces.returned.push_back(returned);
}

void CheckGroup(const ShardGroup& group, size_t number, ListedKeys& keys,
                Violations& violations) {
  if (group.empty()) {
    return violations.Add(Cat("group ", number),
                          "empty (need 1 piece or more, found 0)");
  }
  bool mixed = false;
  for (const ShardableTensor& piece : group) {
    if (!mixed && !SameTask(piece.device, group[0].device)) {
      mixed = true;
      violations.Add(
          Name(ReturnedPiece{&piece, number}),
          NeedFound("different tasks in one group",
                    Cat(TaskText(group[0].device), " as ", Name(group[0])),
                    TaskText(piece.device)));
    }
    CheckReturned({&piece, number}, keys, violations);
  }
}

// A listed box and the parts that the policy returned.
struct ListedBox {
  const ShardableTensor* listed = nullptr;
  std::vector<ReturnedPiece> parts;
};

// Checks what a part inherits from its listed piece.
void CheckPart(const ShardableTensor& listed, const ReturnedPiece& part,
               Violations& violations) {
  const ShardableTensor& piece = *part.piece;
  if (!SameReplica(piece.device, listed.device)) {
    violations.Add(Name(part),
                   NeedFound("task altered", TaskText(listed.device),
                             TaskText(piece.device)));
  }
  if (piece.dtype != listed.dtype) return;  // already reported
  const int64_t bytes = PieceBytes(listed, piece.box);
  if (piece.bytes != bytes) {
    violations.Add(Name(part), NeedFound("bytes altered", bytes, piece.bytes));
  }
}

// Reports duplicate parts, and keeps the first of them.
void CheckDoubled(ListedBox& box, Violations& violations) {
  absl::flat_hash_map<Box, size_t> seen;  // the group of each box
  std::vector<ReturnedPiece> distinct;
  for (const ReturnedPiece& part : box.parts) {
    const auto [it, fresh] = seen.try_emplace(part.piece->box, part.group);
    if (fresh) {
      distinct.push_back(part);
    } else {
      violations.Add(Name(part), Cat("doubled: group ", it->second,
                                     " has it too (need 1, found 2)"));
    }
  }
  box.parts = std::move(distinct);
}

// Checks that the parts, which are distinct, tile the listed box exactly.
void CheckTiling(const ListedBox& listed, Violations& violations) {
  const Box& whole = listed.listed->box;
  const int64_t need = NumElements(whole.shape);
  if (listed.parts.empty()) {
    return violations.Add(
        Name(*listed.listed),
        NeedFound("dropped: no group has elements of it", need, int64_t{0}));
  }
  if (listed.parts.size() == 1 && listed.parts[0].piece->box == whole) return;
  std::vector<const Box*> boxes;
  int64_t found = 0;
  for (const ReturnedPiece& part : listed.parts) {
    boxes.push_back(&part.piece->box);
    found += NumElements(part.piece->box.shape);
  }
  const auto overlaps = FindOverlaps(boxes, kMaxLines);
  for (const auto& [a, b] : overlaps) {
    violations.Add(Name(listed.parts[b]),
                   Cat("doubled: overlaps ", Name(listed.parts[a])));
  }
  if (overlaps.empty() && found == need) return;
  const std::optional<Box> gap = FindGap(whole, boxes, overlaps.empty());
  if (!gap.has_value()) return;
  const std::string cause =
      Cat("dropped in part: no group has box \"", BoxText(*gap), "\"");
  violations.Add(Name(*listed.listed),
                 overlaps.empty() ? NeedFound(cause, need, found) : cause);
}

// Boxes without elements cannot be tiled: each must be returned unchanged.
void CheckEmptyBoxes(const KeyPieces& key, Violations& violations) {
  absl::flat_hash_map<Box, std::vector<const ShardableTensor*>> open;
  for (const ShardableTensor* listed : key.listed) {
    if (IsEmpty(listed->box)) open[listed->box].push_back(listed);
  }
  for (const ReturnedPiece& returned : key.returned) {
    if (!IsEmpty(returned.piece->box)) continue;
    const auto it = open.find(returned.piece->box);
    if (it == open.end() || it->second.empty()) {
      violations.Add(
          Name(returned),
          it == open.end()
              ? "added: no such box without elements was listed"
              : "doubled: the box without elements is there already");
      continue;
    }
    std::vector<const ShardableTensor*>& left = it->second;
    auto match = std::find_if(
        left.begin(), left.end(), [&](const ShardableTensor* listed) {
          return SameReplica(listed->device, returned.piece->device);
        });
    if (match == left.end()) match = left.begin();
    CheckPart(**match, returned, violations);
    left.erase(match);
  }
  for (const ShardableTensor* listed : key.listed) {
    if (!IsEmpty(listed->box)) continue;
    std::vector<const ShardableTensor*>& left = open[listed->box];
    const auto it = std::find(left.begin(), left.end(), listed);
    if (it == left.end()) continue;
    violations.Add(Name(*listed), NeedFound("dropped", 1, 0));
  }
}

void CheckBoxes(const KeyPieces& key, Violations& violations) {
  CheckEmptyBoxes(key, violations);
  std::vector<ListedBox> boxes;
  for (const ShardableTensor* listed : key.listed) {
    if (!IsEmpty(listed->box)) boxes.push_back({listed, {}});
  }
  std::vector<const Box*> plain;
  plain.reserve(boxes.size());
  for (const ListedBox& box : boxes) plain.push_back(&box.listed->box);
  BoxOwners owners(std::move(plain));
  for (const ReturnedPiece& returned : key.returned) {
    if (IsEmpty(returned.piece->box)) continue;
    const std::optional<size_t> owner = owners.Find(returned.piece->box);
    if (!owner.has_value()) {
      violations.Add(Name(returned), "added: not part of one listed box");
      continue;
    }
    boxes[*owner].parts.push_back(returned);
    CheckPart(*boxes[*owner].listed, returned, violations);
  }
  for (ListedBox& box : boxes) {
    if (box.parts.size() > 1) CheckDoubled(box, violations);
    CheckTiling(box, violations);
  }
}

}  // namespace

Status ValidateGroups(const std::vector<ShardGroup>& groups,
                      const std::vector<ShardableTensor>& listed,
                      std::string_view description) {
  BELAY_ASSIGN_OR_RETURN(ListedKeys keys, SortListed(listed));
  Violations violations(description);
  for (size_t i = 0; i < groups.size(); ++i) {
    CheckGroup(groups[i], i, keys, violations);
  }
  for (const KeyPieces& key : keys.pieces) CheckBoxes(key, violations);
  return violations.ToStatus();
}

// --- Sharding policy ---

namespace {

using TaskName = std::tuple<std::optional<std::string>, std::optional<int>,
                            std::optional<int>>;

// Returns the pieces of each task, in the order of listing.
std::vector<TaskPieces> SortByTask(const std::vector<ShardableTensor>& listed) {
  std::vector<TaskPieces> tasks;
  absl::flat_hash_map<TaskName, size_t> positions;
  size_t position = 0;
  for (const ShardableTensor& piece : listed) {
    const DeviceSpec& task = piece.device;
    // Pieces of a task are usually adjacent.
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

// User code may throw anything.
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
    BELAY_RETURN_IF_ERROR(
        AddPrefix(made.status(),
                  absl::StrFormat("policy \"%s\": task %s", policy.description,
                                  TaskText(pieces[0].device))));
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

// MaxShardSize: a greedy packer that cuts pieces which do not fit.

namespace {

// A limit on the groups that rank 0 must hold in memory.
constexpr int64_t kMaxGroups = int64_t{1} << 22;

class Packer {
 public:
  explicit Packer(int64_t max_bytes) : max_bytes_(max_bytes) {}

  // Adds a listed piece to the open group, cut as far as needed.
  void Add(const ShardableTensor& piece) {
    piece_ = &piece;
    num_alone_ = 0;
    if (piece.dtype == DType::kString || IsEmpty(piece.box)) {
      PutWhole(piece.box, piece.bytes);
    } else {
      Pack(piece.box, 0);
    }
    if (num_alone_ == 0) return;
    warnings_.push_back(absl::StrFormat(
        "max shard size \"%s\": %d elements are too large and get a group each "
        "(need at most %d bytes, found %d)",
        piece_->key, num_alone_, max_bytes_, alone_.back()[0].bytes));
  }

  Grouping Take() {
    Grouping made = std::move(groups_);
    made.warnings = std::move(warnings_);
    std::move(alone_.begin(), alone_.end(), std::back_inserter(made.groups));
    return made;
  }

 private:
  // Adds all of `box`, whose axes before `axis` have length 1.
  void Pack(Box box, size_t axis) {
    // An axis of length 1 cannot be cut.
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

  // Adds a box by rows, if not even one slice fits into an empty group.
  void PackRows(const Box& box, size_t axis) {
    Box row = box;
    row.shape[axis] = 1;
    for (int64_t i = 0; i < box.shape[axis]; ++i) {
      Pack(row, axis + 1);
      ++row.offset[axis];
    }
  }

  // Returns the axis to cut, or kNoAxis if no slice fits into a group.
  size_t ChooseAxis(const Box& box, int64_t bytes, size_t first) const {
    size_t best = kNoAxis;
    int64_t fewest = 0;
    for (size_t axis = first; axis < box.shape.size(); ++axis) {
      const int64_t slices = max_bytes_ / (bytes / box.shape[axis]);
      if (slices == 0) continue;
      // Whole rows have the longest runs in the file. They leave less than a
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

  // Adds a box that cannot be cut.
  void PutWhole(const Box& box, int64_t bytes) {
    if (bytes > max_bytes_) {
      alone_.push_back({MakePart(box, bytes)});
      ++num_alone_;
      return;
    }
    if (bytes > rest_) OpenGroup();
    Put(box, bytes);
  }

  void Put(Box box, int64_t bytes) {
    if (groups_.empty()) OpenGroup();
    groups_.back().push_back(MakePart(std::move(box), bytes));
    rest_ -= bytes;
  }

  ShardableTensor MakePart(Box box, int64_t bytes) const {
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

  static constexpr size_t kNoAxis = SIZE_MAX;

  const int64_t max_bytes_;
  int64_t rest_ = 0;  // bytes left in the open group, the last of groups_
  std::vector<ShardGroup> groups_;
  std::vector<ShardGroup> alone_;
  std::vector<std::string> warnings_;

  const ShardableTensor* piece_ = nullptr;  // the piece that is being added
  int64_t num_alone_ = 0;                   // its elements in alone_
};

// Rejects a limit that would make too many groups. Each element above the limit
// forms a separate group.
Status CheckLimit(const std::vector<ShardableTensor>& pieces,
                  int64_t max_bytes) {
  if (max_bytes < 1) {
    return absl::InvalidArgumentError(
        Cat("max shard size: no group can hold anything (need 1 byte or more, ",
            "found ", max_bytes, ")"));
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
