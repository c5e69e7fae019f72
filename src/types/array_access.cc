#include "types/array_access.h"

#include <algorithm>
#include <cstddef>
#include <functional>

#include "absl/strings/str_format.h"
#include "base/guarded.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "base/with_memory.h"

namespace belay {
namespace {

FormerElements ElementsOf(const Shard& shard) {
  const auto* begin = static_cast<const std::byte*>(shard.data);
  return {begin, begin + NumElements(shard.box.shape) * DTypeSize(shard.dtype),
          shard.key};
}

// The axes of the stored array of a container.
size_t NumAxes(const Shard& shard) { return shard.per_rank ? 2 : 1; }

// Returns the length that is stored for a shard, or -1.
int64_t LengthFor(const Shard& shard, const std::vector<StoredLength>& stored) {
  const auto found =
      std::lower_bound(stored.begin(), stored.end(), shard.key,
                       [](const StoredLength& length, const std::string& key) {
                         return length.key < key;
                       });
  const bool is_there = found != stored.end() && found->key == shard.key &&
                        found->num_axes == static_cast<int32_t>(NumAxes(shard));
  return is_there ? found->length : -1;
}

Status Resize(int64_t length, Shard& shard) {
  const std::string what = absl::StrFormat(
      "\"%s\": %d elements of %s", shard.key, length, DTypeName(shard.dtype));
  BELAY_RETURN_IF_ERROR(Guarded([&] {
    return WithMemory(what, [&]() -> Status {
      shard.access->resize(shard.object, static_cast<size_t>(length));
      return absl::OkStatus();
    });
  }));
  shard = WithElements(std::move(shard));
  if (shard.global_shape[0] == length) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrFormat(
      "restore \"%s\": its container did not take the stored length (need %d, "
      "found %d)",
      shard.key, length, shard.global_shape[0]));
}

// Checks that a shard of which the program has said where it lies does not lie
// in memory that is gone. `former` is ascending.
Status CheckStillThere(const Shard& shard,
                       const std::vector<FormerElements>& former) {
  if (shard.data == nullptr || shard.access != nullptr) return absl::OkStatus();
  const FormerElements mine = ElementsOf(shard);
  const auto after = std::lower_bound(
      former.begin(), former.end(), mine.end,
      [](const FormerElements& elements, const std::byte* end) {
        return std::less<>()(elements.begin, end);
      });
  if (after == former.begin()) return absl::OkStatus();
  const FormerElements& before = *(after - 1);
  if (!std::less<>()(mine.begin, before.end)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrFormat("restore \"%s\": it lies in the memory of \"%s\", which "
                      "takes the stored length; add that as a std::span to "
                      "keep its length",
                      shard.key, before.key));
}

// Two shards of one container may have given it different lengths.
Status CheckSameLength(const Shard& shard, const Shape& given) {
  if (shard.global_shape == given) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrFormat(
      "restore \"%s\": its container was added under another key as well, "
      "which is stored with another length (need %s, found %s)",
      shard.key, ShapeText(given), ShapeText(shard.global_shape)));
}

}  // namespace

Shard WithElements(Shard shard) {
  if (shard.access == nullptr) return shard;
  ArrayAccess::View view = shard.access->view(shard.object);
  shard.data = view.data;
  shard.dtype = view.dtype;
  shard.box = WholeBox(view.shape);
  shard.global_shape = std::move(view.shape);
  return shard;
}

Status CheckElements(const Shard& shard) {
  if (shard.access == nullptr || shard.data != nullptr || IsEmpty(shard.box)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      Cat("list \"", shard.key, "\": the object has no memory: was it moved ",
          "from?"));
}

bool IsResizable(const Shard& shard) {
  return shard.access != nullptr && shard.access->resize != nullptr;
}

bool TakesLength(const Shard& shard, DType stored_dtype, const Shape& stored) {
  return IsResizable(shard) && stored_dtype != DType::kString &&
         stored.size() == NumAxes(shard);
}

Shape StoredShape(const Shard& shard, int num_ranks) {
  Shape shape = shard.global_shape;
  if (shard.per_rank) shape.insert(shape.begin(), num_ranks);
  return shape;
}

Shape ShapeToRestore(const Shard& shard, int num_ranks, DType stored_dtype,
                     const Shape& stored) {
  Shape shape = StoredShape(shard, num_ranks);
  if (TakesLength(shard, stored_dtype, stored)) shape.back() = stored.back();
  return shape;
}

Status CheckAfterLengths(std::vector<FormerElements> former,
                         std::vector<Shard>& shards) {
  if (former.empty()) return absl::OkStatus();
  std::sort(former.begin(), former.end(),
            [](const FormerElements& a, const FormerElements& b) {
              return std::less<>()(a.begin, b.begin);
            });
  for (Shard& shard : shards) {
    const Shape given = shard.global_shape;
    shard = WithElements(std::move(shard));
    BELAY_RETURN_IF_ERROR(CheckSameLength(shard, given));
    BELAY_RETURN_IF_ERROR(CheckStillThere(shard, former));
  }
  return absl::OkStatus();
}

Status GiveLengths(const std::vector<StoredLength>& stored,
                   std::vector<Shard>& shards) {
  std::vector<FormerElements> former;
  for (Shard& shard : shards) {
    if (!IsResizable(shard)) continue;
    const int64_t length = LengthFor(shard, stored);
    if (length < 0 || Shape{length} == shard.global_shape) continue;
    former.push_back(ElementsOf(shard));
    BELAY_RETURN_IF_ERROR(Resize(length, shard));
  }
  return CheckAfterLengths(std::move(former), shards);
}

Status GiveLength(const StoredValue& stored, Shard& shard,
                  std::vector<FormerElements>& former) {
  const ValuePart* part = stored.Find("");
  if (part == nullptr || !TakesLength(shard, part->dtype, part->shape)) {
    return absl::OkStatus();
  }
  if (shard.global_shape == Shape{part->shape.back()}) return absl::OkStatus();
  former.push_back(ElementsOf(shard));
  return Resize(part->shape.back(), shard);
}

}  // namespace belay
