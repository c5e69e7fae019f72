// The fields of a struct as text, as in the index: "id:i64 x:f64[3]". Stored
// structs have no gaps between their fields.

#ifndef BELAY_CORE_STRUCT_TEXT_H_
#define BELAY_CORE_STRUCT_TEXT_H_

#include "belay/arrays/fields.h"

namespace belay {

// Small enough that HDF5 describes the type in one message, with room to spare.
inline constexpr int64_t kMaxFields = 256;
inline constexpr int64_t kMaxFieldName = 64;
inline constexpr int64_t kMaxFieldAxes = 4;

int64_t FieldBytes(const StructField& field);

// Returns why the fields cannot be stored, or "". Causes: none or too many; a
// name that is empty, too long, duplicate or has other characters; an array of
// no elements or with too many axes.
std::string FieldsProblem(const std::vector<StructField>& fields);

// Such as "x:f64[3]".
std::string FieldText(const StructField& field);
std::string FieldsText(const std::vector<StructField>& fields);

// Parses fields, and places them one after the other without gaps.
// Errors: InvalidArgument - the text has another form, or FieldsProblem.
StatusOr<std::vector<StructField>> ParseFields(std::string_view text);

// Returns the size in bytes of a stored struct with these fields; 0 if `text`
// is empty, -1 if it is malformed.
int64_t CountStructBytes(std::string_view text);

}  // namespace belay

#endif  // BELAY_CORE_STRUCT_TEXT_H_
