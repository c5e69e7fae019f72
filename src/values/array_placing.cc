#include "values/array_placing.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "base/key_patterns.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "bytes/element_conversion.h"
#include "bytes/wire.h"
#include "geometry/mesh_size.h"
#include "plan/stored/stored_form.h"

namespace belay {
namespace {

Status Refuse(absl::StatusCode code, const std::string& key,
              absl::string_view cause) {
  return Status(code, absl::StrFormat("restore \"%s\": %s", key, cause));
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

// The shape that is wanted of a stored array.
StatusOr<Shape> WantedShape(const StoredValueInfo& stored,
                            const ArrayRestoreArgs& args) {
  if (!args.global_shape.has_value() || *args.global_shape == stored.shape) {
    return stored.shape;
  }
  if (args.strict) {
    return Refuse(absl::StatusCode::kFailedPrecondition, stored.key,
                  absl::StrFormat(
                      "the stored shape differs (need %s, found %s); to pad "
                      "or cut it, set strict = false",
                      ShapeText(*args.global_shape), ShapeText(stored.shape)));
  }
  if (args.global_shape->size() != stored.shape.size()) {
    return Refuse(absl::StatusCode::kFailedPrecondition, stored.key,
                  absl::StrFormat("the stored number of axes differs (need %s, "
                                  "found %s)",
                                  ShapeText(*args.global_shape),
                                  ShapeText(stored.shape)));
  }
  return *args.global_shape;
}

// Its layout for so many ranks. None, if it is whole.
StatusOr<std::optional<Layout>> WantedLayout(const StoredValueInfo& stored,
                                             const ArrayRestoreArgs& args,
                                             int num_ranks) {
  if (args.layout.has_value()) return args.layout;
  if (!args.stored_layout || stored.layout.empty()) return std::nullopt;
  StatusOr<Layout> layout = Layout::Parse(stored.layout);
  if (!layout.ok()) {
    return Refuse(absl::StatusCode::kDataLoss, stored.key,
                  layout.status().message());
  }
  return layout->OnRanks(num_ranks);
}

StatusOr<PlacedArray> PlaceText(const StoredValueInfo& stored,
                                const ArrayRestoreArgs& args) {
  if ((args.dtype.has_value() && *args.dtype != DType::kString) ||
      args.global_shape.has_value() || args.layout.has_value()) {
    return Refuse(absl::StatusCode::kInvalidArgument, stored.key,
                  "it is a text, which has no other dtype, shape or layout");
  }
  return PlacedArray{.key = stored.key, .dtype = DType::kString};
}

StatusOr<PlacedArray> Place(const StoredValueInfo& stored,
                            const ArrayRestoreArgs& args, int rank,
                            int num_ranks) {
  if (stored.dtype == DType::kString) return PlaceText(stored, args);
  PlacedArray placed{.key = stored.key,
                     .dtype = args.dtype.value_or(stored.dtype)};
  if (!IsConvertible(stored.dtype, placed.dtype)) {
    return Refuse(
        absl::StatusCode::kInvalidArgument, stored.key,
        absl::StrFormat("%s does not convert to %s", DTypeName(stored.dtype),
                        DTypeName(placed.dtype)));
  }
  BELAY_ASSIGN_OR_RETURN(placed.global_shape, WantedShape(stored, args));
  BELAY_ASSIGN_OR_RETURN(placed.layout, WantedLayout(stored, args, num_ranks));
  placed.box = WholeBox(placed.global_shape);
  placed.replica = rank;
  if (placed.layout.has_value()) {
    StatusOr<Box> box = placed.layout->LocalBox(placed.global_shape, rank);
    if (!box.ok()) {
      return Refuse(box.status().code(), stored.key, box.status().message());
    }
    placed.box = *std::move(box);
    placed.replica = placed.layout->Replica(rank);
  }
  placed.has_zeros = NumElements(StoredPart(placed.box, stored.shape).shape) !=
                     NumElements(placed.box.shape);
  return placed;
}

}  // namespace

std::vector<StoredValueInfo> StoredValuesOf(const SavedCheckpoint& saved) {
  std::vector<StoredValueInfo> values;
  std::vector<std::string> layouts = LayoutsOf(saved);
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
    const std::vector<StoredValueInfo>& stored,
    const std::vector<ArrayRestoreArgsFor>& args, int rank, int num_ranks) {
  for (const ArrayRestoreArgsFor& entry : args) {
    BELAY_RETURN_IF_ERROR(CheckArgs(entry, num_ranks));
  }
  BELAY_ASSIGN_OR_RETURN(const KeyPatterns patterns,
                         KeyPatterns::CompileKeysOf(args));
  std::vector<std::string_view> keys;
  for (const StoredValueInfo& value : stored) keys.push_back(value.key);
  BELAY_RETURN_IF_ERROR(patterns.CheckAllMatch(keys));
  std::vector<PlacedArray> placed;
  for (const StoredValueInfo& value : stored) {
    const int entry = patterns.Find(value.key);
    const ArrayRestoreArgs chosen =
        entry < 0 ? ArrayRestoreArgs() : args[static_cast<size_t>(entry)].args;
    if (chosen.skip) continue;
    BELAY_ASSIGN_OR_RETURN(placed.emplace_back(),
                           Place(value, chosen, rank, num_ranks));
  }
  return placed;
}

std::string EncodeStoredValues(const std::vector<StoredValueInfo>& values) {
  WireWriter out;
  out.Put<uint64_t>(values.size());
  for (const StoredValueInfo& value : values) {
    out.PutText(value.key);
    out.Put(value.dtype);
    out.PutShape(value.shape);
    out.PutText(value.layout);
  }
  return out.Take();
}

std::vector<StoredValueInfo> DecodeStoredValues(std::string_view bytes) {
  WireReader in(bytes);
  return in.GetAll<StoredValueInfo>([&] {
    StoredValueInfo value;
    value.key = in.GetText();
    value.dtype = in.Get<DType>();
    value.shape = in.GetShape();
    value.layout = in.GetText();
    return value;
  });
}

std::string EncodeArgs(const std::vector<ArrayRestoreArgsFor>& args) {
  WireWriter out;
  for (const auto& [keys, entry] : args) {
    out.PutText(keys);
    out.Put(entry.skip);
    out.Put(entry.dtype.has_value());
    out.Put(entry.dtype.value_or(DType::kU8));
    out.Put(entry.global_shape.has_value());
    out.PutShape(entry.global_shape.value_or(Shape{}));
    out.Put(entry.strict);
    out.PutText(entry.layout.has_value() ? entry.layout->ToString() : "");
    out.Put(entry.stored_layout);
  }
  return out.Take();
}

}  // namespace belay
