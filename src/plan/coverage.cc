#include "plan/coverage.h"

#include <tuple>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "core/box_tiling.h"
#include "core/program_words.h"
#include "core/status_macros.h"

namespace belay {
namespace {

std::string Held(const HeldShard& held) {
  return absl::StrFormat("box \"%s\" of rank %d", BoxText(held.info->box),
                         held.rank);
}

std::string FieldsOrNone(const ShardInfo& info) {
  return info.fields.empty() ? "none" : info.fields;
}

Status CheckAgainstFirst(const HeldShard& first, const HeldShard& other) {
  const ShardInfo& a = *first.info;
  const ShardInfo& b = *other.info;
  const auto differs = [&](std::string_view what, std::string_view mine,
                           std::string_view its) {
    if (first.rank == other.rank) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "plan \"%s\": rank %d has added the key twice, with another %s (%s, "
          "%s)",
          a.key, first.rank, what, mine, its));
    }
    return absl::InvalidArgumentError(absl::StrFormat(
        "plan \"%s\": ranks disagree on the %s (rank %d has %s, rank %d has "
        "%s)",
        a.key, what, first.rank, mine, other.rank, its));
  };
  if (a.dtype != b.dtype) {
    return differs("dtype", DTypeName(a.dtype), DTypeName(b.dtype));
  }
  if (a.global_shape != b.global_shape) {
    return differs("shape", ShapeText(a.global_shape),
                   ShapeText(b.global_shape));
  }
  if (a.string_bytes != b.string_bytes) {
    return differs("text length", absl::StrCat(a.string_bytes),
                   absl::StrCat(b.string_bytes));
  }
  if (a.fields != b.fields) {
    return differs("fields of its structs", FieldsOrNone(a), FieldsOrNone(b));
  }
  return absl::OkStatus();
}

Status WithShard(const HeldShard& held, const Status& cause) {
  return AddPrefix(cause, "plan \"", held.info->key, "\": rank ", held.rank);
}

// Two shards with the same box and the same replica number overlap.
Status CheckReplicas(const HeldBox& held) {
  if (held.holders.size() == 1) return absl::OkStatus();
  absl::flat_hash_map<int64_t, const HeldShard*> seen;
  for (const HeldShard& holder : held.holders) {
    const auto [it, fresh] = seen.try_emplace(holder.info->replica, &holder);
    if (fresh) continue;
    if (it->second->rank == holder.rank) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "plan \"%s\": the key was added twice: %s, both times as replica %d",
          holder.info->key, Held(holder), holder.info->replica));
    }
    return absl::InvalidArgumentError(absl::StrFormat(
        "plan \"%s\": shards overlap: %s and of rank %d, both replica %d; give "
        "each replica its own number",
        holder.info->key, Held(*it->second), holder.rank,
        holder.info->replica));
  }
  return absl::OkStatus();
}

// Returns true if the boxes, which are distinct and in order, span all axes but
// one entirely and are consecutive along that one: the most common case.
bool IsStack(const std::vector<HeldBox>& boxes, const Shape& shape) {
  const auto cut =
      std::mismatch(shape.begin(), shape.end(), boxes[0].box.shape.begin());
  if (cut.first == shape.end()) return boxes.size() == 1;
  const auto axis = static_cast<size_t>(cut.first - shape.begin());
  int64_t next = 0;
  for (const HeldBox& held : boxes) {
    if (held.box.offset[axis] != next) return false;
    next += held.box.shape[axis];
    for (size_t i = 0; i < shape.size(); ++i) {
      if (i != axis && held.box.shape[i] != shape[i]) return false;
    }
  }
  return next == shape[axis];
}

// Returns true if the intervals, which map start to length, follow each other
// from 0 to `length`.
bool IsChain(const absl::flat_hash_map<int64_t, int64_t>& intervals,
             int64_t length) {
  int64_t end = 0;
  for (size_t i = 0; i < intervals.size(); ++i) {
    const auto next = intervals.find(end);
    if (next == intervals.end()) return false;
    end += next->second;
  }
  return end == length;
}

// Returns true if the boxes, which are distinct, are exactly the cells of a
// grid, in linear time.
bool IsGrid(const std::vector<HeldBox>& boxes, const Shape& shape) {
  size_t cells = 1;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    absl::flat_hash_map<int64_t, int64_t> intervals;
    for (const HeldBox& held : boxes) {
      const int64_t length = held.box.shape[axis];
      const auto [it, fresh] =
          intervals.try_emplace(held.box.offset[axis], length);
      if (!fresh && it->second != length) return false;
    }
    if (!IsChain(intervals, shape[axis])) return false;
    cells *= intervals.size();
    if (cells > boxes.size()) return false;
  }
  return cells == boxes.size();
}

Status CheckTiling(const std::vector<HeldBox>& boxes,
                   const StoredArray& array) {
  const Shape shape = IoShape(array);
  if (!boxes.empty() && (IsStack(boxes, shape) || IsGrid(boxes, shape))) {
    return absl::OkStatus();
  }
  const std::vector<const Box*> plain = GetBoxes(boxes);
  if (const auto pair = FindOverlap(plain)) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "plan \"%s\": shards overlap: %s and %s; leave ghost "
        "cells out: %s",
        array.key, Held(boxes[pair->first].holders[0]),
        Held(boxes[pair->second].holders[0]), kMemoryLayoutWord.InProgram()));
  }
  int64_t volume = 0;
  for (const HeldBox& held : boxes) volume += NumElements(held.box.shape);
  if (volume == NumElements(shape)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat(
      "plan \"%s\": no rank holds box \"%s\" (need %d elements of shape %s, "
      "found %d)",
      array.key, BoxText(*FindGap(WholeBox(shape), plain, /*disjoint=*/true)),
      NumElements(shape), ShapeText(shape), volume));
}

// Prefetches a later shard: the shards of a key are far apart in memory, one in
// the list of each rank.
void FetchAhead(const std::vector<HeldShard>& shards, size_t i) {
  constexpr size_t kAhead = 12;
  constexpr size_t kCacheLine = 64;
  if (i + kAhead >= shards.size()) return;
  const auto* const info =
      reinterpret_cast<const char*>(shards[i + kAhead].info);
  for (size_t at = 0; at < sizeof(ShardInfo); at += kCacheLine) {
    __builtin_prefetch(info + at);
  }
}

bool IsBefore(const Box& a, const Box& b) {
  return std::tie(a.offset, a.shape) < std::tie(b.offset, b.shape);
}

// Collects the distinct boxes of shards, in order.
class BoxGroups {
 public:
  // Replicas are usually adjacent: if the first two boxes differ, most do.
  explicit BoxGroups(const std::vector<HeldShard>& shards) {
    if (shards.size() > 1 && shards[0].info->box != shards[1].info->box) {
      boxes_.reserve(shards.size());
    }
  }

  void Add(const HeldShard& held) {
    Box text;
    const bool is_text = held.info->dtype == DType::kString;
    if (is_text) text = IoBox(*held.info);
    const Box& box = is_text ? text : held.info->box;
    if (IsEmpty(box)) return;
    if (!boxes_.empty() && boxes_.back().box == box) {
      boxes_.back().holders.push_back(held);
      return;
    }
    // Ranks are usually in the order of their boxes.
    in_order_ =
        in_order_ && (boxes_.empty() || IsBefore(boxes_.back().box, box));
    boxes_.push_back({box, {held}});
  }

  std::vector<HeldBox> Take() {
    if (in_order_) return std::move(boxes_);
    std::vector<HeldBox*> order;
    for (HeldBox& held : boxes_) order.push_back(&held);
    std::stable_sort(order.begin(), order.end(),
                     [](const HeldBox* a, const HeldBox* b) {
                       return IsBefore(a->box, b->box);
                     });
    std::vector<HeldBox> sorted;
    for (HeldBox* held : order) {
      if (sorted.empty() || sorted.back().box != held->box) {
        sorted.push_back(std::move(*held));
        continue;
      }
      Holders& holders = sorted.back().holders;
      holders.insert(holders.end(), held->holders.begin(), held->holders.end());
    }
    return sorted;
  }

 private:
  std::vector<HeldBox> boxes_;
  bool in_order_ = true;
};

}  // namespace

Status CheckArrayForm(DType dtype, const Shape& shape) {
  BELAY_ASSIGN_OR_RETURN(const int64_t elements, CheckedNumElements(shape));
  if (dtype == DType::kString) {
    if (shape.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrFormat("a string is always a scalar (need shape [], found %s)",
                        ShapeText(shape)));
  }
  if (elements <= INT64_MAX / DTypeSize(dtype)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat(
      "the array has more than 2^63 - 1 bytes (%d elements of %d bytes)",
      elements, DTypeSize(dtype)));
}

std::vector<const Box*> GetBoxes(const std::vector<HeldBox>& held) {
  std::vector<const Box*> boxes;
  for (const HeldBox& each : held) boxes.push_back(&each.box);
  return boxes;
}

std::optional<std::pair<size_t, size_t>> FindOverlap(
    const std::vector<const Box*>& boxes) {
  const BoxIndex index(boxes);
  if (index.is_stack()) return std::nullopt;
  for (size_t i = 0; i < boxes.size(); ++i) {
    for (size_t j : index.Find(*boxes[i])) {
      if (j != i) return std::make_pair(i, j);
    }
  }
  return std::nullopt;
}

StatusOr<std::vector<HeldBox>> CheckCoverage(
    const std::vector<HeldShard>& shards) {
  const HeldShard& first = shards[0];
  BELAY_RETURN_IF_ERROR(WithShard(
      first, CheckArrayForm(first.info->dtype, first.info->global_shape)));
  BoxGroups groups(shards);
  for (size_t i = 0; i < shards.size(); ++i) {
    FetchAhead(shards, i);
    const HeldShard& held = shards[i];
    BELAY_RETURN_IF_ERROR(CheckAgainstFirst(first, held));
    BELAY_RETURN_IF_ERROR(
        WithShard(held, CheckBox(held.info->box, held.info->global_shape)));
    groups.Add(held);
  }
  std::vector<HeldBox> boxes = groups.Take();
  for (const HeldBox& held : boxes) {
    BELAY_RETURN_IF_ERROR(CheckReplicas(held));
  }
  const StoredArray array{first.info->key, first.info->dtype,
                          first.info->global_shape, first.info->string_bytes};
  if (ArrayBytes(array) > 0) {
    BELAY_RETURN_IF_ERROR(CheckTiling(boxes, array));
  }
  return boxes;
}

}  // namespace belay
