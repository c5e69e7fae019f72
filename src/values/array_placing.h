// Which memory each rank needs for the values of a checkpoint. Pure.

#ifndef BELAY_VALUES_ARRAY_PLACING_H_
#define BELAY_VALUES_ARRAY_PLACING_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "belay/status.h"
#include "belay/values/restore_args.h"
#include "plan/plan.h"

namespace belay {

// A value of a checkpoint, as far as it matters here.
struct StoredValueInfo {
  std::string key;
  DType dtype = DType::kU8;
  Shape shape;
  std::string layout;  // Layout::ToString, or empty

  friend bool operator==(const StoredValueInfo&,
                         const StoredValueInfo&) = default;
};

// What the index says of all values. Ascending by key.
std::vector<StoredValueInfo> StoredValuesOf(const SavedCheckpoint& saved);

// What one rank restores of a value.
struct PlacedArray {
  std::string key;
  DType dtype = DType::kU8;
  Shape global_shape;
  Box box;
  int64_t replica = 0;
  std::optional<Layout> layout;
  // Not all of the box is stored.
  bool has_zeros = false;
};

// Sorts out which entry is for which value, and what it makes of it. Values
// that are skipped are left out; a text has neither shape nor box.
// Errors: those of RestoreValues.
StatusOr<std::vector<PlacedArray>> PlaceArrays(
    const std::vector<StoredValueInfo>& stored,
    const std::vector<ArrayRestoreArgsFor>& args, int rank, int num_ranks);

// For messages between ranks, and for their fingerprint.
std::string EncodeStoredValues(const std::vector<StoredValueInfo>& values);
std::vector<StoredValueInfo> DecodeStoredValues(std::string_view bytes);
std::string EncodeArgs(const std::vector<ArrayRestoreArgsFor>& args);

}  // namespace belay

#endif  // BELAY_VALUES_ARRAY_PLACING_H_
