// The fields of structs: those in memory, and how stored ones go there.

#ifndef BELAY_STATE_STRUCT_FIELDS_H_
#define BELAY_STATE_STRUCT_FIELDS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "belay/arrays/fields.h"
#include "belay/extend/shard.h"
#include "belay/rows.h"
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
Status UseStoredFields(const std::string& stored, int64_t stored_bytes,
                       OtherFields rule, Shard& shard);

}  // namespace belay

#endif  // BELAY_STATE_STRUCT_FIELDS_H_
