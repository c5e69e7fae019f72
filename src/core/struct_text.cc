#include "core/struct_text.h"

#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_format.h"
#include "core/integers.h"
#include "core/status_macros.h"
#include "core/text.h"

namespace belay {
namespace {

// No sum of lengths overflows below this; HDF5 stores them in four bytes.
constexpr int64_t kMaxStructBytes = int64_t{1} << 30;

std::string FieldProblem(const StructField& field) {
  const auto length = std::ssize(field.name);
  if (length == 0) return "a field has no name";
  for (const unsigned char c : field.name) {
    if (absl::ascii_isalnum(c) || c == '_' || c == '-' || c == '.') continue;
    return absl::StrFormat(
        "the name of a field may only have letters, digits, _, - and . (found "
        "\"%s\")",
        absl::CHexEscape(field.name));
  }
  if (length > kMaxFieldName) {
    return absl::StrFormat(
        "the name of field \"%s\" is too long (need at most %d characters, "
        "found %d)",
        field.name, kMaxFieldName, length);
  }
  if (DTypeSize(field.dtype) == 0) {
    return Cat("field \"", field.name, "\" is not a number");
  }
  if (std::ssize(field.shape) > kMaxFieldAxes) {
    return absl::StrFormat(
        "field \"%s\" has too many axes (need at most %d, found %d)",
        field.name, kMaxFieldAxes, field.shape.size());
  }
  int64_t bytes = DTypeSize(field.dtype);
  for (const int64_t axis : field.shape) {
    if (axis <= 0 || axis > kMaxStructBytes / bytes) {
      return Cat("field \"", field.name, "\" is an array of no elements or of ",
                 "too many");
    }
    bytes *= axis;
  }
  return "";
}

// Parses a shape such as "3,2".
StatusOr<Shape> ParseAxes(std::string_view text) {
  Shape shape;
  for (const std::string_view axis : Split(text, ',')) {
    const auto length = ParseNumber<int64_t>(axis);
    if (!length) {
      return absl::InvalidArgumentError(
          Cat("\"", axis, "\" is not the length of an axis"));
    }
    shape.push_back(*length);
  }
  return shape;
}

StatusOr<StructField> ParseField(std::string_view text) {
  const size_t colon = text.find(':');
  const size_t bracket = std::min(text.find('['), text.size());
  const bool is_array = bracket < text.size();
  if (colon == text.npos || colon > bracket ||
      (is_array && text.back() != ']')) {
    return absl::InvalidArgumentError(Cat("\"", text, "\" is not a field"));
  }
  StructField field{.name = std::string(text.substr(0, colon))};
  BELAY_ASSIGN_OR_RETURN(
      field.dtype, ParseDType(text.substr(colon + 1, bracket - colon - 1)));
  if (!is_array) return field;
  BELAY_ASSIGN_OR_RETURN(
      field.shape,
      ParseAxes(text.substr(bracket + 1, text.size() - bracket - 2)));
  return field;
}

}  // namespace

int64_t FieldBytes(const StructField& field) {
  return NumElements(field.shape) * DTypeSize(field.dtype);
}

std::string FieldsProblem(const std::vector<StructField>& fields) {
  if (fields.empty()) return "it has no fields";
  if (std::ssize(fields) > kMaxFields) {
    return absl::StrFormat("it has too many fields (need at most %d, found %d)",
                           kMaxFields, fields.size());
  }
  std::set<std::string_view> names;
  int64_t bytes = 0;
  for (const StructField& field : fields) {
    const std::string problem = FieldProblem(field);
    if (!problem.empty()) return problem;
    if (!names.insert(field.name).second) {
      return Cat("field \"", field.name, "\" appears twice");
    }
    bytes += FieldBytes(field);
  }
  if (bytes <= kMaxStructBytes) return "";
  return absl::StrFormat("it is too large (need at most %d bytes, found %d)",
                         kMaxStructBytes, bytes);
}

std::string FieldText(const StructField& field) {
  std::string text = Cat(field.name, ":", DTypeName(field.dtype));
  if (field.shape.empty()) return text;
  return Cat(text, "[", absl::StrJoin(field.shape, ","), "]");
}

std::string FieldsText(const std::vector<StructField>& fields) {
  return absl::StrJoin(fields, " ",
                       [](std::string* out, const StructField& field) {
                         out->append(FieldText(field));
                       });
}

StatusOr<std::vector<StructField>> ParseFields(std::string_view text) {
  std::vector<StructField> fields;
  for (const std::string_view one : Split(text, ' ')) {
    if (std::ssize(fields) > kMaxFields) break;
    BELAY_ASSIGN_OR_RETURN(fields.emplace_back(), ParseField(one));
  }
  const std::string problem = FieldsProblem(fields);
  if (!problem.empty()) {
    return absl::InvalidArgumentError(Cat("fields of a struct: ", problem));
  }
  int64_t offset = 0;
  for (StructField& field : fields) {
    field.offset = offset;
    offset += FieldBytes(field);
  }
  return fields;
}

int64_t CountStructBytes(std::string_view text) {
  if (text.empty()) return 0;
  const StatusOr<std::vector<StructField>> fields = ParseFields(text);
  if (!fields.ok()) return -1;
  return fields->back().offset + FieldBytes(fields->back());
}

}  // namespace belay
