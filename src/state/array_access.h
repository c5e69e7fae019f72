// Finds and resizes the memory of array elements, and determines the part of
// each array that a rank restores.

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
#include "belay/extend/shard.h"
#include "belay/extend/type_handler.h"
#include "belay/status.h"
#include "belay/values/restore_args.h"
#include "plan/plan.h"

namespace belay {

// The memory that a container had before a restore resized it.
struct FormerElements {
  const std::byte* begin = nullptr;
  const std::byte* end = nullptr;
  std::string key;
};

// Updates the address of the shard's elements, which may have moved.
// Errors: InvalidArgument - the object was moved from, or its length has
//   changed since pieces of it were added; what a user function threw.
Status FindElements(Shard& shard);

bool CanResize(const Shard& shard);

// Returns true if the shard can take the length of a stored array. Always false
// for rows.
bool IsResizable(const Shard& shard);

// Resizes the object to `length` elements and updates their address.
// Errors: ResourceExhausted; what a container threw; FailedPrecondition - the
//   container does not have this length afterwards.
Status Resize(int64_t length, Shard& shard);

FormerElements GetElements(const Shard& shard);

// Returns true if the shard takes the length of a stored array with this dtype
// and shape.
bool TakesLength(const Shard& shard, DType stored_dtype, const Shape& stored);

Shape ShapeToRestore(const Shard& shard, DType stored_dtype,
                     const Shape& stored);

// The lengths of stored one-dimensional arrays, by key.
using StoredLengths = std::map<std::string, int64_t>;

// Updates the addresses of all shards after containers were resized. `former`
// is the containers' former memory, in the order of resizing. `listed_after`
// is, for each shard, how many containers were resized before it was listed: a
// later shard may reuse memory that they freed. Empty: none were.
// Errors: FailedPrecondition - two keys for one object have different lengths,
//   or a shard is in memory that a container of another key had.
Status CheckAfterLengths(const std::vector<FormerElements>& former,
                         const std::vector<size_t>& listed_after,
                         std::vector<Shard>& shards);

// Resizes the shards that take a stored length, and adds their former memory to
// `former`.
Status GiveLengths(const StoredLengths& stored, std::vector<Shard>& shards,
                   std::vector<FormerElements>& former);

// Does the same for one shard and the part "" of a stored value.
Status GiveLength(const StoredValue& stored, Shard& shard,
                  std::vector<FormerElements>& former);

// Restoring all values of a checkpoint by arguments, without a State.

template <typename Archive>
void Fields(Archive& archive, StoredArray& array) {
  archive(array.key, array.dtype, array.shape, array.string_bytes, array.args,
          array.layout, array.fields);
}

// Returns the key, dtype, shape and layout of each array, ascending by key.
std::vector<StoredArray> ListStoredArrays(const SavedCheckpoint& saved);

// The part of a value that one rank restores.
struct PlacedArray {
  std::string key;
  DType dtype = DType::kU8;
  Shape global_shape;
  Box box;
  int64_t replica = 0;
  std::optional<Layout> layout;
  bool has_zeros = false;  // part of the box is not stored
};

// Returns the parts of the values that are not skipped. A string has no shape
// and no box.
// Errors: those of RestoreValues.
StatusOr<std::vector<PlacedArray>> PlaceArrays(
    const std::vector<StoredArray>& stored,
    const std::vector<ArrayRestoreArgsFor>& args, int rank, int num_ranks);

// Encodes the arguments for their fingerprint.
std::string EncodeArgs(const std::vector<ArrayRestoreArgsFor>& args);

}  // namespace belay

#endif  // BELAY_STATE_ARRAY_ACCESS_H_
