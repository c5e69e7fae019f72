// Where the elements of arrays are in the program's memory, and where a
// restore puts those that have no memory.

#ifndef BELAY_STATE_ARRAY_ACCESS_H_
#define BELAY_STATE_ARRAY_ACCESS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "belay/arrays/box.h"
#include "belay/arrays/dtype.h"
#include "belay/arrays/shard.h"
#include "belay/handlers/type_handler.h"
#include "belay/status.h"
#include "belay/values/restore_args.h"
#include "plan/plan.h"

namespace belay {

// The elements of objects that may have moved since they were added, and their
// lengths, which a restore changes.

// Memory that a container has given up, and the key of the container.
struct FormerElements {
  const std::byte* begin = nullptr;
  const std::byte* end = nullptr;
  std::string key;
};

// Finds where the shard's elements are now.
// Errors: InvalidArgument - the object was moved from, or has another length
//   than when pieces of it were added; what a function of the program threw.
Status FindElements(Shard& shard);

// Whether the shard's object has a function that changes its length.
bool CanResize(const Shard& shard);

// Whether the shard's object can take another length. Rows are another matter.
bool IsResizable(const Shard& shard);

// Gives an object another length, of so many elements, and finds them.
// Errors: ResourceExhausted - no memory; what a container threw;
//   FailedPrecondition - it did not take the length.
Status Resize(int64_t length, Shard& shard);

// The memory that the shard's elements take up now.
FormerElements ElementsOf(const Shard& shard);

// Whether an array that is stored in this form gives the shard its length.
bool TakesLength(const Shard& shard, DType stored_dtype, const Shape& stored);

// Returns the shape of the array that a shard restores: that of `stored` where
// the shard takes its length.
Shape ShapeToRestore(const Shard& shard, DType stored_dtype,
                     const Shape& stored);

// The lengths of stored arrays of one axis, by key.
using StoredLengths = std::map<std::string, int64_t>;

// Finds the elements of all shards anew, after containers have given up memory,
// which is listed in the order in which they did. `listed_after` says how much
// of it was given up before a shard was listed: memory is used again. Empty:
// none, for all shards.
// Errors: FailedPrecondition - two keys are for one object and have other
//   lengths, or memory was added under another key that a container has given
//   up; names the keys.
Status CheckAfterLengths(const std::vector<FormerElements>& former,
                         const std::vector<size_t>& listed_after,
                         std::vector<Shard>& shards);

// Gives the shards that take one the lengths of `stored`, and adds the memory
// that they gave up.
// Errors: ResourceExhausted - no memory; what a container threw.
Status GiveLengths(const StoredLengths& stored, std::vector<Shard>& shards,
                   std::vector<FormerElements>& former);

// Gives a shard that takes it the length of the part "" of what is stored, and
// adds the memory that it gave up.
// Errors: ResourceExhausted and what a container threw, as of GiveLengths.
Status GiveLength(const StoredValue& stored, Shard& shard,
                  std::vector<FormerElements>& former);

// Which memory each rank needs for the values of a checkpoint.

// A value of a checkpoint, as far as it matters here.
struct StoredValueInfo {
  std::string key;
  DType dtype = DType::kU8;
  Shape shape;
  std::string layout;  // Layout::ToString, or empty

  friend bool operator==(const StoredValueInfo&,
                         const StoredValueInfo&) = default;
};
template <typename Archive>
void Fields(Archive& archive, StoredValueInfo& value) {
  archive(value.key, value.dtype, value.shape, value.layout);
}

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

// For the fingerprint of the arguments.
std::string EncodeArgs(const std::vector<ArrayRestoreArgsFor>& args);

}  // namespace belay

#endif  // BELAY_STATE_ARRAY_ACCESS_H_
