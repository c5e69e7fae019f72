// The memory of the elements of arrays, and the parts of arrays that a rank
// restores.

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
// Errors: InvalidArgument - the object was moved from, or has another length
//   than when pieces of it were added; what a function of the program threw.
Status FindElements(Shard& shard);

bool CanResize(const Shard& shard);

// Returns true if the shard takes the length of a stored array; never for rows.
bool IsResizable(const Shard& shard);

// Resizes the object to `length` elements, and finds them.
// Errors: ResourceExhausted; what a container threw; FailedPrecondition - it
//   has another length afterwards.
Status Resize(int64_t length, Shard& shard);

FormerElements GetElements(const Shard& shard);

// Returns true if the shard takes the length of an array of this form.
bool TakesLength(const Shard& shard, DType stored_dtype, const Shape& stored);

Shape ShapeToRestore(const Shard& shard, DType stored_dtype,
                     const Shape& stored);

// The lengths of stored arrays of one axis, by key.
using StoredLengths = std::map<std::string, int64_t>;

// Finds the elements of all shards after containers were resized. `former` has
// their former memory, in the order of resizing. `listed_after` has, by shard,
// how many containers were resized before it was listed, as freed memory may be
// used again; empty: none.
// Errors: FailedPrecondition - two keys for one object have different lengths,
//   or a shard lies in memory that a container of another key had.
Status CheckAfterLengths(const std::vector<FormerElements>& former,
                         const std::vector<size_t>& listed_after,
                         std::vector<Shard>& shards);

// Resizes the shards that take a stored length, and adds their former memory.
Status GiveLengths(const StoredLengths& stored, std::vector<Shard>& shards,
                   std::vector<FormerElements>& former);

// The same for one shard and the part "" of a stored value.
Status GiveLength(const StoredValue& stored, Shard& shard,
                  std::vector<FormerElements>& former);

// Restores of all values of a checkpoint by arguments, without a State.

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
  bool has_zeros = false;  // not all of the box is stored
};

// Returns the parts of the values that are not skipped; a string has neither
// shape nor box. Errors: those of RestoreValues.
StatusOr<std::vector<PlacedArray>> PlaceArrays(
    const std::vector<StoredArray>& stored,
    const std::vector<ArrayRestoreArgsFor>& args, int rank, int num_ranks);

// For the fingerprint of the arguments.
std::string EncodeArgs(const std::vector<ArrayRestoreArgsFor>& args);

}  // namespace belay

#endif  // BELAY_STATE_ARRAY_ACCESS_H_
