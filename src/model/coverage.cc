#include "model/coverage.h"

#include <algorithm>
#include <set>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"

namespace belay {
namespace {

std::string Held(const HeldShard& held) {
  return absl::StrFormat("box \"%s\" of rank %d", BoxText(held.info->box),
                         held.rank);
}

Status CheckAgainstFirst(const HeldShard& first, const HeldShard& other) {
  const ShardInfo& a = *first.info;
  const ShardInfo& b = *other.info;
  const auto differs = [&](std::string_view what, std::string_view mine,
                           std::string_view its) {
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
  return absl::OkStatus();
}

Status CheckShard(const HeldShard& held) {
  const ShardInfo& shard = *held.info;
  StatusOr<int64_t> elements = CheckedNumElements(shard.global_shape);
  Status status = elements.status();
  if (status.ok()) status = CheckBox(shard.box, shard.global_shape);
  if (status.ok() && shard.dtype == DType::kString &&
      !shard.global_shape.empty()) {
    status = absl::InvalidArgumentError("a string is always a scalar");
  }
  if (status.ok() && DTypeSize(shard.dtype) > 0 &&
      *elements > INT64_MAX / DTypeSize(shard.dtype)) {
    status = absl::InvalidArgumentError("the array has more than 2^63 bytes");
  }
  if (status.ok()) return status;
  return Status(status.code(),
                absl::StrFormat("plan \"%s\": rank %d: %s", shard.key,
                                held.rank, status.message()));
}

// Replicas must be told apart by their number: the same box twice with one
// number is two shards that overlap.
Status CheckReplicas(const HeldBox& held) {
  absl::flat_hash_map<int64_t, const HeldShard*> seen;
  for (const HeldShard& holder : held.holders) {
    const auto [it, fresh] = seen.try_emplace(holder.info->replica, &holder);
    if (fresh) continue;
    return absl::InvalidArgumentError(absl::StrFormat(
        "plan \"%s\": shards overlap: %s and of rank %d, both replica %d",
        holder.info->key, Held(*it->second), holder.rank,
        holder.info->replica));
  }
  return absl::OkStatus();
}

// The axis along which the boxes start at most different places: sweeping
// along it keeps the set of open boxes small.
size_t SweepAxis(const std::vector<const Box*>& boxes) {
  size_t best = 0, most = 0;
  for (size_t axis = 0; axis < boxes[0]->offset.size(); ++axis) {
    absl::flat_hash_set<int64_t> starts;
    for (const Box* box : boxes) starts.insert(box->offset[axis]);
    if (starts.size() > most) {
      most = starts.size();
      best = axis;
    }
  }
  return best;
}

// Whether the boxes are exactly the cells of a grid, each once: the common
// case, in linear time.
bool IsGrid(const std::vector<HeldBox>& boxes, const Shape& shape) {
  const size_t ndim = shape.size();
  std::vector<absl::flat_hash_map<int64_t, int64_t>> cells(ndim);
  for (const HeldBox& held : boxes) {
    for (size_t i = 0; i < ndim; ++i) {
      const auto [it, fresh] =
          cells[i].try_emplace(held.box.offset[i], held.box.shape[i]);
      if (!fresh && it->second != held.box.shape[i]) return false;
    }
  }
  size_t count = 1;
  for (size_t i = 0; i < ndim; ++i) {
    int64_t length = 0;
    for (const auto& [start, part] : cells[i]) length += part;
    if (length != shape[i]) return false;
    // Intervals that sum to the axis tile it only if each starts where
    // another one ends.
    for (const auto& [start, part] : cells[i]) {
      if (start + part != shape[i] && !cells[i].contains(start + part)) {
        return false;
      }
    }
    count *= cells[i].size();
  }
  return count == boxes.size();
}

// Some box of the array that no shard covers.
Box FindGap(const std::vector<HeldBox>& boxes, const Shape& shape) {
  std::vector<Box> open = {WholeBox(shape)};
  for (const HeldBox& held : boxes) {
    std::vector<Box> next;
    for (const Box& box : open) {
      for (Box& rest : Subtract(box, held.box)) next.push_back(std::move(rest));
    }
    open = std::move(next);
  }
  return open.front();
}

Status CheckTiling(const std::vector<HeldBox>& boxes,
                   const StoredArray& array) {
  const Shape shape = IoShape(array);
  if (IsGrid(boxes, shape)) return absl::OkStatus();
  std::vector<const Box*> plain;
  int64_t volume = 0;
  for (const HeldBox& held : boxes) plain.push_back(&held.box);
  if (const auto pair = FindOverlap(plain)) {
    return absl::InvalidArgumentError(
        absl::StrFormat("plan \"%s\": shards overlap: %s and %s", array.key,
                        Held(boxes[pair->first].holders[0]),
                        Held(boxes[pair->second].holders[0])));
  }
  for (const HeldBox& held : boxes) volume += NumElements(held.box.shape);
  if (volume == NumElements(shape)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat(
      "plan \"%s\": no rank holds box \"%s\" (need %d elements of shape %s, "
      "found %d)",
      array.key, BoxText(FindGap(boxes, shape)), NumElements(shape),
      ShapeText(shape), volume));
}

std::vector<HeldBox> GroupByBox(const std::vector<HeldShard>& shards) {
  std::vector<HeldBox> boxes;
  absl::flat_hash_map<Box, size_t> positions;
  for (const HeldShard& held : shards) {
    Box box = IoBox(*held.info);
    if (IsEmpty(box)) continue;
    const auto [it, fresh] = positions.try_emplace(box, boxes.size());
    if (fresh) boxes.push_back({std::move(box), {}});
    boxes[it->second].holders.push_back(held);
  }
  std::sort(boxes.begin(), boxes.end(), [](const HeldBox& a, const HeldBox& b) {
    return a.box.offset < b.box.offset;
  });
  return boxes;
}

}  // namespace

std::optional<std::pair<size_t, size_t>> FindOverlap(
    const std::vector<const Box*>& boxes) {
  if (boxes.size() < 2) return std::nullopt;
  if (boxes[0]->offset.empty()) return std::make_pair(0, 1);
  const size_t axis = SweepAxis(boxes);
  std::vector<size_t> order(boxes.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return boxes[a]->offset[axis] < boxes[b]->offset[axis];
  });
  // Boxes that are still open, by where they end along the axis.
  std::multiset<std::pair<int64_t, size_t>> open;
  for (size_t i : order) {
    if (IsEmpty(*boxes[i])) continue;
    const int64_t start = boxes[i]->offset[axis];
    while (!open.empty() && open.begin()->first <= start) {
      open.erase(open.begin());
    }
    for (const auto& [end, j] : open) {
      if (Intersect(*boxes[i], *boxes[j])) {
        return std::make_pair(std::min(i, j), std::max(i, j));
      }
    }
    open.emplace(start + boxes[i]->shape[axis], i);
  }
  return std::nullopt;
}

StatusOr<std::vector<HeldBox>> CheckCoverage(
    const std::vector<HeldShard>& shards) {
  const HeldShard& first = shards[0];
  BELAY_RETURN_IF_ERROR(CheckShard(first));
  for (const HeldShard& held : shards) {
    BELAY_RETURN_IF_ERROR(CheckAgainstFirst(first, held));
    BELAY_RETURN_IF_ERROR(CheckShard(held));
  }
  std::vector<HeldBox> boxes = GroupByBox(shards);
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
