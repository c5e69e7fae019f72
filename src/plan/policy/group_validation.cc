// ValidateGroups: does a grouping hold exactly what was listed?
//
// Returned boxes are sorted to the listed boxes that they are parts of; then
// each listed box is looked at alone. Near-linear in the number of boxes.

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "belay/values/sharding_policy.h"
#include "geometry/box_tiling.h"
#include "plan/policy/listed_pieces.h"

namespace belay {
namespace {

constexpr int64_t kMaxLines = 20;

// Collects violations, a line each, and counts those that are too many.
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

// A piece that a policy returned.
struct ReturnedPiece {
  const ShardableTensor* piece = nullptr;
  size_t group = 0;
};

struct KeyPieces {
  std::vector<const ShardableTensor*> listed;
  std::vector<ReturnedPiece> returned;  // whose boxes lie in the array
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

std::string NeedFound(std::string_view cause, std::string_view need,
                      std::string_view found) {
  return Cat(cause, " (need ", need, ", found ", found, ")");
}

std::string NeedFound(std::string_view cause, int64_t need, int64_t found) {
  return Cat(cause, " (need ", need, ", found ", found, ")");
}

std::string TaskText(const DeviceSpec& device) {
  return Cat("\"", DeviceText(TaskOf(device)), "\"");
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

// Checks what needs no look at the boxes of other pieces.
void CheckReturned(const ReturnedPiece& returned, ListedKeys& keys,
                   Violations& violations) {
  const ShardableTensor& piece = *returned.piece;
  const auto key = keys.positions.find(piece.key);
  if (key == keys.positions.end()) {
    violations.Add(Name(returned), "added: no such key was listed");
    return;
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
    violations.Add(Name(returned), std::string(inside.message()));
    return;
  }
  pieces.returned.push_back(returned);
}

void CheckGroup(const ShardGroup& group, size_t number, ListedKeys& keys,
                Violations& violations) {
  if (group.empty()) {
    violations.Add(absl::StrFormat("group %d", number),
                   "empty (need 1 piece or more, found 0)");
    return;
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

// A listed box and what was made of it.
struct ListedBox {
  const ShardableTensor* listed = nullptr;
  std::vector<ReturnedPiece> parts;
};

// Checks what a part inherits from the listed piece that it is of.
void CheckPart(const ShardableTensor& listed, const ReturnedPiece& part,
               Violations& violations) {
  const ShardableTensor& piece = *part.piece;
  if (!SameReplica(piece.device, listed.device)) {
    violations.Add(Name(part),
                   NeedFound("task altered", TaskText(listed.device),
                             TaskText(piece.device)));
  }
  if (piece.dtype != listed.dtype) return;  // said before
  const int64_t bytes = PieceBytes(listed, piece.box);
  if (piece.bytes != bytes) {
    violations.Add(Name(part), NeedFound("bytes altered", bytes, piece.bytes));
  }
}

// Leaves the first of equal parts.
void CheckDoubled(ListedBox& box, Violations& violations) {
  absl::flat_hash_map<Box, size_t> seen;  // and in which group
  std::vector<ReturnedPiece> distinct;
  for (const ReturnedPiece& part : box.parts) {
    const auto [it, fresh] = seen.try_emplace(part.piece->box, part.group);
    if (fresh) {
      distinct.push_back(part);
    } else {
      violations.Add(Name(part),
                     absl::StrFormat("doubled: group %d has it too (need 1, "
                                     "found 2)",
                                     it->second));
    }
  }
  box.parts = std::move(distinct);
}

// Whether the parts, which are distinct, are exactly the listed box.
void CheckTiling(const ListedBox& listed, Violations& violations) {
  const Box& whole = listed.listed->box;
  if (listed.parts.empty()) {
    violations.Add(Name(*listed.listed),
                   NeedFound("dropped: no group has elements of it",
                             NumElements(whole.shape), 0));
    return;
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
  const int64_t need = NumElements(whole.shape);
  if (overlaps.empty() && found == need) return;
  const std::optional<Box> gap = FindGap(whole, boxes, overlaps.empty());
  if (!gap.has_value()) return;
  const std::string cause =
      Cat("dropped in part: no group has box \"", BoxText(*gap), "\"");
  violations.Add(Name(*listed.listed),
                 overlaps.empty() ? NeedFound(cause, need, found) : cause);
}

// Boxes without elements cannot tile anything: each has to be there by itself.
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

}  // namespace belay
