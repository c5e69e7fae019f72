#include <set>

#include "absl/strings/str_format.h"
#include "base/text.h"
#include "nlohmann/json.hpp"
#include "safetensors/file_plan.h"

namespace belay::safetensors {
namespace {

using nlohmann::json;

constexpr char kWeightMap[] = "weight_map";

// A name that stays in its directory.
bool IsPlainName(std::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find('/') == name.npos && name.find('\0') == name.npos;
}

}  // namespace

StatusOr<FileOfTensor> ParseIndex(std::string_view text) {
  // The tree has only the last of equal names.
  std::set<std::string> seen;
  std::string member, twice;
  const auto watch = [&](int depth, json::parse_event_t event, json& parsed) {
    if (event != json::parse_event_t::key) return true;
    const auto& name = parsed.get_ref<const std::string&>();
    if (depth == 1) member = name;
    if ((depth == 1 || (depth == 2 && member == kWeightMap)) &&
        !seen.insert(absl::StrFormat("%d%s", depth, name)).second) {
      twice = name;
    }
    return true;
  };
  const json document = json::parse(text, watch, false);
  // The parser takes a NUL for the end.
  if (document.is_discarded() || text.find('\0') != text.npos) {
    return absl::DataLossError("the index is not JSON");
  }
  if (!twice.empty()) {
    return absl::DataLossError(
        absl::StrFormat("the name \"%s\" stands there twice", twice));
  }
  if (!document.is_object() || !document.contains(kWeightMap) ||
      !document[kWeightMap].is_object()) {
    return absl::DataLossError(
        "the index has no \"weight_map\" of tensors and files");
  }
  FileOfTensor file_of;
  for (const auto& [tensor, file] : document[kWeightMap].items()) {
    if (!file.is_string()) {
      return absl::DataLossError(
          absl::StrFormat("the file of tensor \"%s\" is no text (found %s)",
                          tensor, file.type_name()));
    }
    const auto& name = file.get_ref<const std::string&>();
    if (!IsPlainName(name)) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "the file of tensor \"%s\" is not in the directory of the index "
          "(need a name without \"/\", found \"%s\")",
          tensor, name));
    }
    file_of[tensor] = name;
  }
  return file_of;
}

}  // namespace belay::safetensors
