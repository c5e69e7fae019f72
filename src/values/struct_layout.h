// Structs: where their bytes lie in the program's memory and where they are
// stored. Pure.

#ifndef BELAY_VALUES_STRUCT_LAYOUT_H_
#define BELAY_VALUES_STRUCT_LAYOUT_H_

#include <cstdint>
#include <memory>
#include <string>

#include "belay/arrays/fields.h"
#include "belay/arrays/shard.h"
#include "belay/rows.h"
#include "belay/status.h"

namespace belay {

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

}  // namespace belay

#endif  // BELAY_VALUES_STRUCT_LAYOUT_H_
