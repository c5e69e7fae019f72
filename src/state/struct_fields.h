// The fields of structs: in memory, in storage, and how they correspond.

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

// Returns the layout of structs whose layout in memory is the stored one.
// Errors: InvalidArgument - the text does not describe fields.
StatusOr<std::shared_ptr<const StructLayout>> StoredLayout(
    const std::string& text);

// Prepares a shard of structs to restore structs with the fields `stored`; "":
// no fields. Sets its last axis to their length.
// Errors: FailedPrecondition - the shard has other fields and the rule makes
//   this an error, no field of the shard is stored, or a field is stored with
//   another type.
Status UseStoredFields(const std::string& stored, int64_t stored_bytes,
                       OtherFields rule, Shard& shard);

}  // namespace belay

#endif  // BELAY_STATE_STRUCT_FIELDS_H_
