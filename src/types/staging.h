// Staging: shards that are stored with another dtype or shape than the
// program's are saved from, and restored to, memory of their own. Pure.
//
//   save:     program's shard -> StageForSave -> converted copy -> file
//   restore:  file -> buffer that StageForRestore made -> HandOver -> program

#ifndef BELAY_TYPES_STAGING_H_
#define BELAY_TYPES_STAGING_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "belay/shard.h"
#include "belay/status.h"

namespace belay {

// What an array is where it is stored.
struct StoredForm {
  DType dtype = DType::kU8;
  Shape shape;

  friend bool operator==(const StoredForm&, const StoredForm&) = default;
};

using StoredForms = absl::flat_hash_map<std::string, StoredForm>;  // by key

// Whether values of one form can become values of the other: the dtype
// converts, and there are as many axes.
bool IsConvertible(const StoredForm& from, const StoredForm& to);

// The part of a wanted box that is stored: what lies within the stored shape.
// Requires as many axes.
Box StoredPart(const Box& wanted, const Shape& stored);

// A shard of the program, and the memory that stands in for its own.
struct StagedShard {
  Shard wanted;
  size_t place = 0;  // of the shard that is listed in its place
  std::unique_ptr<std::byte[]> buffer;
};

// Borrows the memory of the shards that it was made of.
struct Staging {
  std::vector<Shard> shards;  // one for each, in the same order
  std::vector<StagedShard> staged;
  int64_t bytes = 0;  // of the buffers
};

// Lists the shards of dtype `from` as `to`, with converted copies of their
// elements, and the others as they are. All copies exist at the same time: half
// of the program's bytes for f32 as bf16. Requires IsConvertible.
// Errors: ResourceExhausted - no memory; InvalidArgument, OutOfRange - a box
//   outside its array.
StatusOr<Staging> StageForSave(const std::vector<Shard>& shards, DType from,
                               DType to);

// Lists the shards whose key is in `stored` as they are stored: with that dtype
// and shape, and StoredPart of their box, which may be empty. Those that need
// no conversion keep the program's memory, others get a buffer.
// Errors: FailedPrecondition - not convertible; otherwise as above.
StatusOr<Staging> StageForRestore(const std::vector<Shard>& shards,
                                  const StoredForms& stored);

// Once all staged shards have been read: converts them into the program's
// memory. Elements that are not stored are left as they are.
void HandOver(const Staging& staging);

}  // namespace belay

#endif  // BELAY_TYPES_STAGING_H_
