// Rows that go to the ranks which a function of the program names. Pure.
//
//   each rank has an even part -> PackByOwner -> exchange -> TakeOwned

#ifndef BELAY_VALUES_ROWS_OWNED_ROWS_H_
#define BELAY_VALUES_ROWS_OWNED_ROWS_H_

#include <cstddef>
#include <span>
#include <vector>

#include "belay/arrays/shard.h"
#include "belay/status.h"
#include "bytes/message.h"

namespace belay {

// Whether any shard is rows with an owner.
bool HasOwners(const std::vector<Shard>& shards);

// Asks for the owner of each row, and puts the rows of all keys into what their
// owners get.
// Errors: InvalidArgument - the function names no rank, or a key is there
//   twice; what the function threw; all name the key.
Status PackByOwner(const std::vector<Shard>& shards, Messages& to);

// Gives the shards the rows that all ranks have packed for this one, in the
// order of the ranks.
// Errors: FailedPrecondition - there are rows of a key that this rank does not
//   have, or has no room for, or has as another type; ResourceExhausted. All
//   name the key.
Status TakeOwned(const std::vector<std::span<std::byte>>& from,
                 std::vector<Shard>& shards);

}  // namespace belay

#endif  // BELAY_VALUES_ROWS_OWNED_ROWS_H_
