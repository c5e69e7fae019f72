#include "struct_fields.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace belay::tools {

StatusOr<std::vector<ArrayInfo>> FieldsOf(const CheckpointReader& reader,
                                          const ArrayInfo& array) {
  std::vector<ArrayInfo> fields;
  if (array.fields.empty()) return fields;
  for (const absl::string_view text : absl::StrSplit(array.fields, ' ')) {
    const absl::string_view name = text.substr(0, text.find(':'));
    StatusOr<ArrayInfo> field = reader.Find(absl::StrCat(array.key, ".", name));
    if (!field.ok()) return field.status();
    fields.push_back(*std::move(field));
  }
  return fields;
}

}  // namespace belay::tools
