// The fields of a struct as text, as the index has them: "id:i64 x:f64[3]".
//
// Stored structs have their fields one behind the other, without gaps.

#ifndef BELAY_CORE_STRUCT_TEXT_H_
#define BELAY_CORE_STRUCT_TEXT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "belay/arrays/fields.h"
#include "belay/status.h"

namespace belay {

// What HDF5 can say of a type in one message, with room to spare.
inline constexpr int64_t kMaxFields = 256;
inline constexpr int64_t kMaxFieldName = 64;
inline constexpr int64_t kMaxFieldAxes = 4;

int64_t FieldBytes(const StructField& field);

// What is wrong with fields that are to be stored, "" if nothing: none, too
// many, a name that is empty, too long, has other characters or is there twice,
// an array of no elements or of too many axes.
std::string FieldsProblem(const std::vector<StructField>& fields);

// "x:f64[3]".
std::string FieldText(const StructField& field);
std::string FieldsText(const std::vector<StructField>& fields);

// Returns the fields of a text, each behind the one before it.
// Errors: InvalidArgument - it is none, or FieldsProblem.
StatusOr<std::vector<StructField>> ParseFields(std::string_view text);

// The bytes of a struct that is stored with these fields; 0 of no text, -1 of
// one that is none.
int64_t BytesOfFields(std::string_view text);

}  // namespace belay

#endif  // BELAY_CORE_STRUCT_TEXT_H_
