// How values lie in the program's memory: structs, strides, ghost cells, parts
// of variables.

#ifndef BELAY_STATE_MEMORY_LAYOUT_H_
#define BELAY_STATE_MEMORY_LAYOUT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "belay/arrays/fields.h"
#include "belay/arrays/memory.h"
#include "belay/arrays/shard.h"
#include "belay/rows.h"
#include "belay/sharded_variable.h"
#include "belay/status.h"

namespace belay {

// Structs: where their bytes lie in the program's memory and where they are
// stored.

// What is stored of the structs of a shard: "" of bytes, and if it has none.
std::string FieldsTextOf(const Shard& shard);

// The layout of structs that lie in memory as they are stored.
// Errors: InvalidArgument - the text names no fields.
StatusOr<std::shared_ptr<const StructLayout>> StoredLayout(
    const std::string& text);

// Lets a shard that is structs restore what is stored with these fields, "" for
// none: it gets the shape of that along the last axis.
// Errors: FailedPrecondition - it has other fields, and the rule is that this
//   is an error, or none of them is stored, or one of them with another type;
//   names key and fields.
Status TakeStoredFields(const std::string& stored, int64_t stored_bytes,
                        OtherFields rule, Shard& shard);

// The components of a sharded variable as shards.

// Returns the components that this rank holds, as they lie now.
std::vector<Shard> ShardsOfVariable(std::string_view key,
                                    const ShardedVariable& variable);

// Makes the shard of a component ask the variable where that lies, which may
// have been assigned to or swapped. A variable that has other components by
// then has no memory for the shard. The result must outlive the shard.
std::shared_ptr<void> FollowVariable(ShardedVariable& variable, Shard& shard);

// Where the elements of a shard lie in the program's memory.
//
// In:  memory, and how a box lies in it. Out: the shard's first element, its
//      strides, and the ghost cells around it.

// Gives a shard, whose box is known, its elements in `memory`.
// Errors: InvalidArgument - the memory has another size than the box with its
//   ghost cells, or its layout has another number of axes, negative numbers,
//   or several elements in one place.
Status TakeMemory(const Memory& memory, Shard& shard);

// Returns the shards that a restore reads for a shard: itself, larger by the
// ghost cells that it fills, and others with the same key where these lie at
// the other end of a periodic axis.
// Errors: InvalidArgument - there are very many.
StatusOr<std::vector<Shard>> WithGhostCells(Shard shard);

}  // namespace belay

#endif  // BELAY_STATE_MEMORY_LAYOUT_H_
