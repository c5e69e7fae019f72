// Rows that go to the ranks which a function of the program names. Pure.
//
//   each rank has an even part -> PackByOwner -> exchange -> TakeOwned

#ifndef BELAY_TYPES_OWNED_ROWS_H_
#define BELAY_TYPES_OWNED_ROWS_H_

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "belay/shard.h"
#include "belay/status.h"

namespace belay {

// Whether any shard is rows with an owner.
bool HasOwners(const std::vector<Shard>& shards);

// Asks for the owner of each row, and returns for each rank its rows of all
// keys.
// Errors: InvalidArgument - the function names no rank, or a key is there
// twice;
//   what the function threw; all name the key.
StatusOr<std::vector<std::string>> PackByOwner(const std::vector<Shard>& shards,
                                               int num_ranks);

// Gives the shards the rows that all ranks have packed for this one, in the
// order of the ranks.
// Errors: FailedPrecondition - there are rows of a key that this rank does not
//   have, or has no room for, or has as another type; ResourceExhausted. All
//   name the key.
Status TakeOwned(const std::vector<std::span<std::byte>>& from,
                 std::vector<Shard>& shards);

}  // namespace belay

#endif  // BELAY_TYPES_OWNED_ROWS_H_
