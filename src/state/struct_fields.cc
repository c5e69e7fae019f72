#include "state/struct_fields.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "belay/arrays/box.h"
#include "core/program_words.h"
#include "core/status_macros.h"
#include "core/strided_copy.h"
#include "core/struct_text.h"
#include "core/text.h"

namespace belay {
namespace {

constexpr size_t kFieldsShown = 8;

// Appends the part, or merges it with the last one if both are adjacent in
// memory and in storage.
void AddPart(const StructLayout::Part& part,
             std::vector<StructLayout::Part>& parts) {
  if (!parts.empty()) {
    StructLayout::Part& last = parts.back();
    if (last.stored + last.bytes == part.stored &&
        last.memory + last.bytes == part.memory) {
      last.bytes += part.bytes;
      return;
    }
  }
  parts.push_back(part);
}

// Returns what is wrong if two fields overlap, else "".
std::string FindOverlap(const std::vector<StructField>& fields) {
  std::vector<const StructField*> sorted;
  for (const StructField& field : fields) sorted.push_back(&field);
  std::sort(sorted.begin(), sorted.end(),
            [](const StructField* a, const StructField* b) {
              return a->offset < b->offset;
            });
  for (size_t i = 1; i < sorted.size(); ++i) {
    const StructField& before = *sorted[i - 1];
    if (before.offset + FieldBytes(before) <= sorted[i]->offset) continue;
    return Cat("fields \"", before.name, "\" and \"", sorted[i]->name,
               "\" lie in the same memory");
  }
  return "";
}

// The differences between stored fields and those of a program. The order of
// fields does not matter.
struct FieldsMatch {
  std::vector<StructLayout::Part> parts;  // the common fields
  std::vector<std::string> only_stored;
  std::vector<std::string> only_wanted;
  std::vector<std::string> others;  // common names with different types
};

FieldsMatch MatchFields(const std::vector<StructField>& stored,
                        const std::vector<StructField>& wanted) {
  FieldsMatch match;
  std::vector<bool> is_found(wanted.size());
  for (const StructField& field : stored) {
    const auto found = std::find_if(
        wanted.begin(), wanted.end(),
        [&](const StructField& one) { return one.name == field.name; });
    if (found == wanted.end()) {
      match.only_stored.push_back(FieldText(field));
      continue;
    }
    is_found[static_cast<size_t>(found - wanted.begin())] = true;
    if (found->dtype != field.dtype || found->shape != field.shape) {
      match.others.push_back(
          Cat(FieldText(field), " in place of ", FieldText(*found)));
      continue;
    }
    AddPart({field.offset, found->offset, FieldBytes(field)}, match.parts);
  }
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (!is_found[i]) match.only_wanted.push_back(FieldText(wanted[i]));
  }
  return match;
}

Status OtherFieldsError(const Shard& shard, const FieldsMatch& match) {
  std::vector<std::string> parts;
  const auto add = [&](std::string_view what, const auto& fields) {
    if (fields.empty()) return;
    parts.push_back(Cat(what, ": ", JoinFirst(fields, kFieldsShown, ", ")));
  };
  add("not stored", match.only_wanted);
  add("only stored", match.only_stored);
  add("stored", match.others);
  const bool by_name_helps = match.others.empty() && !match.parts.empty();
  return absl::FailedPreconditionError(
      Cat("restore \"", shard.key, "\": its structs have other fields than ",
          "those that are stored (", absl::StrJoin(parts, "; "), ")",
          by_name_helps ? "; OtherFields::kByName restores those that both have"
          : match.others.empty()
              ? ""
              : "; restore into structs with the stored types, and convert "
                "them in the program"));
}

}  // namespace

namespace fields {

std::shared_ptr<const StructLayout> LayoutOf(std::vector<StructField> listed,
                                             int64_t bytes) {
  StructLayout layout{.fields = std::move(listed), .bytes = bytes};
  layout.problem = FieldsProblem(layout.fields);
  if (layout.problem.empty()) layout.problem = FindOverlap(layout.fields);
  layout.text = FieldsText(layout.fields);
  for (const StructField& field : layout.fields) {
    const int64_t field_bytes = FieldBytes(field);
    AddPart({layout.stored_bytes, field.offset, field_bytes}, layout.parts);
    layout.stored_bytes += field_bytes;
  }
  return std::make_shared<const StructLayout>(std::move(layout));
}

std::shared_ptr<const StructLayout> LayoutOfBytes(
    const std::vector<std::byte>& is_value) {
  const auto bytes = std::ssize(is_value);
  StructLayout layout{.bytes = bytes, .stored_bytes = bytes};
  for (int64_t i = 0; i < bytes; ++i) {
    if (is_value[static_cast<size_t>(i)] == std::byte{0}) continue;
    AddPart({i, i, 1}, layout.parts);
  }
  return std::make_shared<const StructLayout>(std::move(layout));
}

}  // namespace fields

std::string GetFieldsText(const Shard& shard) {
  return shard.structs == nullptr ? "" : shard.structs->text;
}

StatusOr<std::shared_ptr<const StructLayout>> StoredLayout(
    const std::string& text) {
  BELAY_ASSIGN_OR_RETURN(std::vector<StructField> stored, ParseFields(text));
  return fields::LayoutOf(std::move(stored), CountStructBytes(text));
}

Status UseStoredFields(const std::string& stored, int64_t stored_bytes,
                       OtherFields rule, Shard& shard) {
  const StructLayout& wanted = *shard.structs;
  if (wanted.text.empty() || stored.empty()) {
    if (wanted.text == stored && wanted.stored_bytes == stored_bytes) {
      return absl::OkStatus();
    }
    const auto form = [](const std::string& text, int64_t bytes) {
      return text.empty() ? absl::StrFormat("%d bytes without fields", bytes)
                          : Cat("\"", text, "\"");
    };
    return absl::FailedPreconditionError(
        Cat("restore \"", shard.key, "\": other structs are stored (need ",
            form(wanted.text, wanted.stored_bytes), ", found ",
            form(stored, stored_bytes), ")"));
  }
  BELAY_ASSIGN_OR_RETURN(const std::vector<StructField> fields,
                         ParseFields(stored));
  FieldsMatch match = MatchFields(fields, wanted.fields);
  const bool differ = !match.only_stored.empty() || !match.only_wanted.empty();
  if (!match.others.empty() || match.parts.empty() ||
      (differ && rule == OtherFields::kError)) {
    return OtherFieldsError(shard, match);
  }
  StructLayout layout = wanted;
  layout.text = stored;
  layout.stored_bytes = stored_bytes;
  layout.parts = std::move(match.parts);
  shard.structs = std::make_shared<const StructLayout>(std::move(layout));
  shard.global_shape.back() = stored_bytes;
  shard.box.shape.back() = stored_bytes;
  return absl::OkStatus();
}

}  // namespace belay
