// The fields of a struct as text, as in the index: "id:i64 x:f64[3]". Stored
// structs have no gaps between their fields.

#ifndef BELAY_CORE_STRUCT_TEXT_H_
#define BELAY_CORE_STRUCT_TEXT_H_

#include "belay/arrays/fields.h"

namespace belay {

// So that HDF5 describes the type in one message, with room to spare.
inline constexpr int64_t kMaxFields = 256;
inline constexpr int64_t kMaxFieldName = 64;
inline constexpr int64_t kMaxFieldAxes = 4;

int64_t FieldBytes(const StructField& field);

// Returns why fields cannot be stored, or "": none or too many, a name that is
// empty, too long, has other characters or appears twice, an array of no
// elements or of too many axes.
std::string FieldsProblem(const std::vector<StructField>& fields);

// "x:f64[3]".
std::string FieldText(const StructField& field);
std::string FieldsText(const std::vector<StructField>& fields);

// Returns the fields of a text, one behind the other.
// Errors: InvalidArgument - it has another form, or FieldsProblem.
StatusOr<std::vector<StructField>> ParseFields(std::string_view text);

// Returns the bytes of a stored struct with these fields; 0 for no text, -1 for
// a text of another form.
int64_t CountStructBytes(std::string_view text);

}  // namespace belay

#endif  // BELAY_CORE_STRUCT_TEXT_H_
