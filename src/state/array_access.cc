#include "state/array_access.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <numeric>
#include <utility>

#include "absl/strings/str_format.h"
#include "core/catch_exceptions.h"
#include "core/element_conversion.h"
#include "core/keys.h"
#include "core/layout.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "core/wire.h"
#include "plan/shards.h"
#include "plan/stored_values.h"
#include "state/rank_rows.h"

namespace belay {
namespace {

// Finds overlaps with former memory.
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

  // Returns a container that had some of this memory and was not among the
  // first `listed_after` containers to be resized, or null.
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
  std::vector<const std::byte*> most_;  // running maximum of end, in that order
};

Status GiveLength(int64_t length, Shard& shard,
                  std::vector<FormerElements>& former) {
  if (shard.global_shape == Shape{length}) return absl::OkStatus();
  former.push_back(GetElements(shard));
  return Resize(length, shard);
}

}  // namespace

FormerElements GetElements(const Shard& shard) {
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
                        "stored length (need %d, found %d)",
                        shard.key, length, found));
  }
  return FindElements(shard);
}

Status FindElements(Shard& shard) {
  if (shard.access == nullptr) {
    if (shard.rows == nullptr) return absl::OkStatus();
    // The last axis of the box may have the length of wider stored structs.
    return RowsShape(shard,
                     shard.structs != nullptr
                         ? shard.box.shape[0] * NumElements(shard.rows->row)
                         : NumElements(shard.box.shape))
        .status();
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
    const int64_t found = NumElements(view.shape);
    if (found != shard.object_elements) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "list \"%s\": its range has changed its length since it was added "
          "(need %d elements, found %d); make a new State for another length",
          shard.key, shard.object_elements, found));
    }
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
    const bool is_fixed = shard.access == nullptr ||
                          (shard.object_elements >= 0 && shard.rows == nullptr);
    const FormerElements* const found =
        is_fixed && shard.data != nullptr
            ? memory.Find(GetElements(shard),
                          listed_after.empty() ? 0 : listed_after[i])
            : nullptr;
    if (found != nullptr) {
      return absl::FailedPreconditionError(absl::StrFormat(
          "restore \"%s\": it lies in the memory of \"%s\", which takes the "
          "stored length; add that with a fixed length (a std::span; in C, "
          "rows "
          "without a count)",
          shard.key, found->key));
    }
    const Shape given = shard.global_shape;
    BELAY_RETURN_IF_ERROR(FindElements(shard));
    if (shard.global_shape == given) continue;
    return absl::FailedPreconditionError(absl::StrFormat(
        "restore \"%s\": its container was added under another key as well, "
        "which is stored with another length (need %s, found %s)",
        shard.key, ShapeText(given), ShapeText(shard.global_shape)));
  }
  return absl::OkStatus();
}

Status GiveLengths(const StoredLengths& stored, std::vector<Shard>& shards,
                   std::vector<FormerElements>& former) {
  for (Shard& shard : shards) {
    if (!IsResizable(shard)) continue;
    const auto length = stored.find(shard.key);
    if (length == stored.end()) continue;
    BELAY_RETURN_IF_ERROR(GiveLength(length->second, shard, former));
  }
  return absl::OkStatus();
}

Status GiveLength(const StoredValue& stored, Shard& shard,
                  std::vector<FormerElements>& former) {
  const ValuePart* part = stored.Find("");
  if (part == nullptr || !TakesLength(shard, part->dtype, part->shape)) {
    return absl::OkStatus();
  }
  return GiveLength(part->shape[0], shard, former);
}

// --- Placement of all values ---

namespace {

Status Refuse(const std::string& key, const Status& cause) {
  return AddPrefix(cause, "restore \"", key, "\"");
}

Status CheckArgs(const ArrayRestoreArgsFor& entry, int num_ranks) {
  const ArrayRestoreArgs& args = entry.args;
  const auto refuse = [&](const std::string& cause) {
    return absl::InvalidArgumentError(
        absl::StrFormat("keys \"%s\": %s", entry.keys, cause));
  };
  if (args.layout.has_value() && args.stored_layout) {
    return refuse("give a layout or ask for the stored one, not both");
  }
  if (args.dtype.has_value() &&
      !IsKnownDType(static_cast<uint8_t>(*args.dtype))) {
    return refuse(absl::StrFormat("unknown dtype (found number %d)",
                                  static_cast<int>(*args.dtype)));
  }
  if (args.global_shape.has_value()) {
    const Status shape = CheckedNumElements(*args.global_shape).status();
    if (!shape.ok()) return refuse(std::string(shape.message()));
  }
  if (!args.layout.has_value()) return absl::OkStatus();
  return CheckMeshSize(Cat("keys \"", entry.keys, "\""), *args.layout,
                       num_ranks);
}

StatusOr<Shape> ChooseShape(const StoredArray& stored,
                            const ArrayRestoreArgs& args) {
  if (!args.global_shape.has_value() || *args.global_shape == stored.shape) {
    return stored.shape;
  }
  if (args.strict) {
    return Refuse(stored.key,
                  absl::FailedPreconditionError(absl::StrFormat(
                      "the stored shape differs (need %s, found %s); to pad "
                      "or cut it, set strict = false",
                      ShapeText(*args.global_shape), ShapeText(stored.shape))));
  }
  if (args.global_shape->size() != stored.shape.size()) {
    return Refuse(stored.key,
                  absl::FailedPreconditionError(absl::StrFormat(
                      "the stored number of axes differs (need %s, found %s)",
                      ShapeText(*args.global_shape), ShapeText(stored.shape))));
  }
  return *args.global_shape;
}

// Returns nullopt if every rank restores the whole array.
StatusOr<std::optional<Layout>> ChooseLayout(const StoredArray& stored,
                                             const ArrayRestoreArgs& args,
                                             int num_ranks) {
  if (args.layout.has_value()) return args.layout;
  if (!args.stored_layout || stored.layout.empty()) return std::nullopt;
  StatusOr<Layout> layout = Layout::Parse(stored.layout);
  if (layout.ok()) return layout->OnRanks(num_ranks);
  return Refuse(stored.key, absl::DataLossError(layout.status().message()));
}

StatusOr<PlacedArray> Place(const StoredArray& stored,
                            const ArrayRestoreArgs& args, int rank,
                            int num_ranks) {
  if (stored.dtype == DType::kString) {
    if (args.dtype.value_or(DType::kString) == DType::kString &&
        !args.global_shape.has_value() && !args.layout.has_value()) {
      return PlacedArray{.key = stored.key, .dtype = DType::kString};
    }
    return Refuse(stored.key,
                  absl::InvalidArgumentError("it is a text, which has no other "
                                             "dtype, shape or layout"));
  }
  PlacedArray placed{.key = stored.key,
                     .dtype = args.dtype.value_or(stored.dtype)};
  if (!IsConvertible(stored.dtype, placed.dtype)) {
    return Refuse(stored.key,
                  absl::InvalidArgumentError(Cat(DTypeName(stored.dtype),
                                                 " does not convert to ",
                                                 DTypeName(placed.dtype))));
  }
  BELAY_ASSIGN_OR_RETURN(placed.global_shape, ChooseShape(stored, args));
  BELAY_ASSIGN_OR_RETURN(placed.layout, ChooseLayout(stored, args, num_ranks));
  placed.box = WholeBox(placed.global_shape);
  placed.replica = rank;
  if (placed.layout.has_value()) {
    StatusOr<Box> box = placed.layout->LocalBox(placed.global_shape, rank);
    if (!box.ok()) return Refuse(stored.key, box.status());
    placed.box = *std::move(box);
    placed.replica = placed.layout->Replica(rank);
  }
  placed.has_zeros = NumElements(StoredPart(placed.box, stored.shape).shape) !=
                     NumElements(placed.box.shape);
  return placed;
}

}  // namespace

std::vector<StoredArray> ListStoredArrays(const SavedCheckpoint& saved) {
  std::vector<StoredArray> values;
  std::vector<std::string> layouts = FindLayouts(saved);
  for (size_t i = 0; i < layouts.size(); ++i) {
    const StoredArray& array = saved.arrays[i];
    values.push_back({.key = array.key,
                      .dtype = array.dtype,
                      .shape = array.shape,
                      .layout = std::move(layouts[i])});
  }
  return values;
}

StatusOr<std::vector<PlacedArray>> PlaceArrays(
    const std::vector<StoredArray>& stored,
    const std::vector<ArrayRestoreArgsFor>& args, int rank, int num_ranks) {
  for (const ArrayRestoreArgsFor& entry : args) {
    BELAY_RETURN_IF_ERROR(CheckArgs(entry, num_ranks));
  }
  BELAY_ASSIGN_OR_RETURN(const KeyPatterns patterns,
                         KeyPatterns::CompileKeys(args));
  std::vector<std::string_view> keys;
  for (const StoredArray& value : stored) keys.push_back(value.key);
  BELAY_RETURN_IF_ERROR(patterns.CheckAllMatch(keys, "args"));
  std::vector<PlacedArray> placed;
  for (const StoredArray& value : stored) {
    const int entry = patterns.Find(value.key);
    const ArrayRestoreArgs chosen =
        entry < 0 ? ArrayRestoreArgs() : args[static_cast<size_t>(entry)].args;
    if (chosen.skip) continue;
    BELAY_ASSIGN_OR_RETURN(placed.emplace_back(),
                           Place(value, chosen, rank, num_ranks));
  }
  return placed;
}

std::string EncodeArgs(const std::vector<ArrayRestoreArgsFor>& args) {
  WireWriter out;
  for (const auto& [keys, entry] : args) {
    out(keys, entry.skip, entry.dtype, entry.global_shape, entry.strict,
        entry.layout.has_value() ? entry.layout->ToString() : "",
        entry.stored_layout);
  }
  return out.Take();
}

}  // namespace belay
