// Fed: the fields of a struct as text. Fields that can be read are written and
// read back as they were, lie one behind the other, and have a type in HDF5 of
// as many bytes.
#include <cstdint>
#include <string>
#include <vector>

#include "core/struct_text.h"
#include "format/bounded_file.h"
#include "format/element_type.h"
#include "fuzz_target.h"

namespace belay::fuzz_struct_text {
namespace {

void Run(std::string_view input) {
  const StatusOr<std::vector<StructField>> fields = ParseFields(input);
  if (!fields.ok()) return;
  const std::string text = FieldsText(*fields);
  const StatusOr<std::vector<StructField>> again = ParseFields(text);
  Require(again.ok() && FieldsText(*again) == text,
          "fields come back as they were");
  int64_t bytes = 0;
  for (const StructField& field : *fields) {
    Require(field.offset == bytes, "fields lie one behind the other");
    bytes += FieldBytes(field);
  }
  Require(CountStructBytes(text) == bytes, "a struct is as long as its fields");
  const StatusOr<std::string> type = h5::EncodedType({.fields = text});
  Require(type.ok() && type->size() >= 8, "HDF5 has a type for a struct");
  const uint64_t encoded =
      h5::MetadataReader(std::string_view(*type).substr(4)).Number(4);
  Require(encoded == static_cast<uint64_t>(bytes),
          "the type in HDF5 is as long as the struct");
}

const RegisterFuzzTarget kTarget({"struct_text", Run});

}  // namespace
}  // namespace belay::fuzz_struct_text
