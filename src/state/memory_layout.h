// The layout of values in memory: structs, strides, ghost cells, components of
// sharded variables.

#ifndef BELAY_STATE_MEMORY_LAYOUT_H_
#define BELAY_STATE_MEMORY_LAYOUT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "belay/arrays/fields.h"
#include "belay/arrays/memory.h"
#include "belay/extend/shard.h"
#include "belay/rows.h"
#include "belay/sharded_variable.h"
#include "belay/status.h"

namespace belay {

// Returns the fields of a shard's structs; "" for bytes, or if it has none.
std::string GetFieldsText(const Shard& shard);

// Returns the layout of structs that lie in memory as they are stored.
// Errors: InvalidArgument - the text does not describe fields.
StatusOr<std::shared_ptr<const StructLayout>> StoredLayout(
    const std::string& text);

// Lets a shard of structs restore structs with the fields `stored`, "" for
// none. Its last axis gets their length.
// Errors: FailedPrecondition - it has other fields, and the rule is that this
//   is an error, or none of them is stored, or one of them with another type.
Status TakeStoredFields(const std::string& stored, int64_t stored_bytes,
                        OtherFields rule, Shard& shard);

std::vector<Shard> ShardsOfVariable(std::string_view key,
                                    const ShardedVariable& variable);

// Makes the shard of a component ask the variable for its address, as the
// variable may be assigned to or swapped. A variable that has other components
// by then has no memory for the shard. The result must outlive the shard.
std::shared_ptr<void> FollowVariable(ShardedVariable& variable, Shard& shard);

// Sets the first element, the strides and the ghost cells of a shard, whose box
// is known.
// Errors: InvalidArgument - the memory does not have the size of the box with
//   its ghost cells, or its layout has another number of axes, negative
//   numbers, or several elements in one place.
Status TakeMemory(const Memory& memory, Shard& shard);

// Returns the shards that a restore reads for a shard: itself, extended by the
// ghost cells that it fills, and others with the same key for ghost cells at
// the other end of a periodic axis.
// Errors: InvalidArgument - there are too many.
StatusOr<std::vector<Shard>> WithGhostCells(Shard shard);

}  // namespace belay

#endif  // BELAY_STATE_MEMORY_LAYOUT_H_
