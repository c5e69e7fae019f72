#include "values/array_access.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <numeric>

#include "absl/strings/str_format.h"
#include "base/catch_bad_alloc.h"
#include "base/catch_exceptions.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "plan/shard_store.h"
#include "values/rows/rank_rows.h"

namespace belay {
namespace {

// Returns the length that is stored for a shard, or -1.
int64_t LengthFor(const Shard& shard, const std::vector<StoredLength>& stored) {
  const auto found =
      std::lower_bound(stored.begin(), stored.end(), shard.key,
                       [](const StoredLength& length, const std::string& key) {
                         return length.key < key;
                       });
  const bool is_there =
      found != stored.end() && found->key == shard.key && found->num_axes == 1;
  return is_there ? found->length : -1;
}

// Memory that was given up, by address.
class FormerMemory {
 public:
  explicit FormerMemory(const std::vector<FormerElements>& former)
      : former_(former), order_(former.size()) {
    std::iota(order_.begin(), order_.end(), size_t{0});
    std::sort(order_.begin(), order_.end(), [&](size_t a, size_t b) {
      return std::less<>()(former[a].begin, former[b].begin);
    });
    const std::byte* end = nullptr;
    for (const size_t i : order_) {
      if (std::less<>()(end, former[i].end)) end = former[i].end;
      most_.push_back(end);
    }
  }

  // Who has given up some of this memory, after `listed_after` others had given
  // up theirs; null if nobody has.
  const FormerElements* Find(const FormerElements& memory,
                             size_t listed_after) const {
    const auto after =
        std::lower_bound(order_.begin(), order_.end(), memory.end,
                         [&](size_t i, const std::byte* end) {
                           return std::less<>()(former_[i].begin, end);
                         });
    for (auto i = static_cast<size_t>(after - order_.begin()); i-- > 0;) {
      if (!std::less<>()(memory.begin, most_[i])) return nullptr;
      const FormerElements& one = former_[order_[i]];
      if (order_[i] >= listed_after && std::less<>()(memory.begin, one.end)) {
        return &one;
      }
    }
    return nullptr;
  }

 private:
  const std::vector<FormerElements>& former_;
  std::vector<size_t> order_;           // ascending by begin
  std::vector<const std::byte*> most_;  // the last end so far
};

// Whether the shard's elements lie where they are whatever its object does.
bool IsFixed(const Shard& shard) {
  return shard.access == nullptr ||
         (shard.object_elements >= 0 && shard.rows == nullptr);
}

// Checks that a shard of which the program has said where it lies does not lie
// in memory that is gone.
Status CheckStillThere(const Shard& shard, const FormerMemory& former,
                       size_t listed_after) {
  if (shard.data == nullptr || !IsFixed(shard)) return absl::OkStatus();
  const FormerElements* const found =
      former.Find(ElementsOf(shard), listed_after);
  if (found == nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrFormat("restore \"%s\": it lies in the memory of \"%s\", which "
                      "takes the stored length; add that with a fixed length "
                      "(a std::span; in C, rows without a count)",
                      shard.key, found->key));
}

// Pieces of a range lie where the program said while it has that length.
Status CheckKeptLength(const Shard& shard, int64_t found) {
  if (found == shard.object_elements) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat(
      "list \"%s\": its range has changed its length since it was added (need "
      "%d elements, found %d); make a new State for another length",
      shard.key, shard.object_elements, found));
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

FormerElements ElementsOf(const Shard& shard) {
  const auto* begin = static_cast<const std::byte*>(shard.data);
  const int64_t bytes = IsEmpty(shard.box) ? 0 : SpanBytes(shard);
  return {begin, begin + bytes, shard.key};
}

Status Resize(int64_t length, Shard& shard) {
  const std::string what = absl::StrFormat(
      "\"%s\": %d elements of %s", shard.key, length, DTypeName(shard.dtype));
  BELAY_RETURN_IF_ERROR(CatchExceptions([&] {
    return CatchBadAlloc(what, [&]() -> Status {
      shard.access->resize(shard.object, static_cast<size_t>(length));
      return absl::OkStatus();
    });
  }));
  const int64_t found = NumElements(shard.access->view(shard.object).shape);
  if (found != length) {
    return absl::FailedPreconditionError(
        absl::StrFormat("restore \"%s\": its container was not resized to the "
                        "stored length (need "
                        "%d, found %d)",
                        shard.key, length, found));
  }
  return FindElements(shard);
}

Status FindElements(Shard& shard) {
  if (shard.access == nullptr) {
    if (shard.rows != nullptr) {
      // Structs may be wider where they are stored.
      const int64_t elements =
          shard.structs != nullptr
              ? shard.box.shape[0] * NumElements(shard.rows->row)
              : NumElements(shard.box.shape);
      BELAY_RETURN_IF_ERROR(RowsShape(shard, elements).status());
    }
    return absl::OkStatus();
  }
  BELAY_ASSIGN_OR_RETURN(ArrayAccess::View view,
                         CatchExceptions([&]() -> StatusOr<ArrayAccess::View> {
                           return shard.access->view(shard.object);
                         }));
  if (shard.object_elements < 0) {
    shard.data = view.data;
    shard.dtype = view.dtype;
    if (shard.rows != nullptr) {
      BELAY_ASSIGN_OR_RETURN(view.shape, RowsShape(shard, view.shape[0]));
    }
    shard.box = WholeBox(view.shape);
    shard.global_shape = std::move(view.shape);
  } else {
    BELAY_RETURN_IF_ERROR(CheckKeptLength(shard, NumElements(view.shape)));
    shard.data = static_cast<char*>(view.data) +
                 shard.object_offset * DTypeSize(shard.dtype);
  }
  if (shard.data != nullptr || IsEmpty(shard.box)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      Cat("list \"", shard.key, "\": the object has no memory: was it moved ",
          "from?"));
}

bool CanResize(const Shard& shard) {
  return shard.access != nullptr && shard.access->resize != nullptr;
}

bool IsResizable(const Shard& shard) {
  return CanResize(shard) && shard.object_elements < 0 && shard.rows == nullptr;
}

bool TakesLength(const Shard& shard, DType stored_dtype, const Shape& stored) {
  return IsResizable(shard) && stored_dtype != DType::kString &&
         stored.size() == 1;
}

Shape ShapeToRestore(const Shard& shard, DType stored_dtype,
                     const Shape& stored) {
  return TakesLength(shard, stored_dtype, stored) ? stored : shard.global_shape;
}

Status CheckAfterLengths(const std::vector<FormerElements>& former,
                         const std::vector<size_t>& listed_after,
                         std::vector<Shard>& shards) {
  if (former.empty()) return absl::OkStatus();
  const FormerMemory memory(former);
  for (size_t i = 0; i < shards.size(); ++i) {
    Shard& shard = shards[i];
    BELAY_RETURN_IF_ERROR(CheckStillThere(
        shard, memory, listed_after.empty() ? 0 : listed_after[i]));
    const Shape given = shard.global_shape;
    BELAY_RETURN_IF_ERROR(FindElements(shard));
    BELAY_RETURN_IF_ERROR(CheckSameLength(shard, given));
  }
  return absl::OkStatus();
}

Status GiveLengths(const std::vector<StoredLength>& stored,
                   std::vector<Shard>& shards,
                   std::vector<FormerElements>& former) {
  for (Shard& shard : shards) {
    if (!IsResizable(shard)) continue;
    const int64_t length = LengthFor(shard, stored);
    if (length < 0 || Shape{length} == shard.global_shape) continue;
    former.push_back(ElementsOf(shard));
    BELAY_RETURN_IF_ERROR(Resize(length, shard));
  }
  return absl::OkStatus();
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
