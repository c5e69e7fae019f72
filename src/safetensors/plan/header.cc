#include "safetensors/plan/header.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "nlohmann/json.hpp"
#include "safetensors/plan/dtypes.h"

namespace belay::safetensors {
namespace {

constexpr int64_t kAlignment = 8;

}  // namespace

std::optional<std::string_view> FormatName(DType dtype) {
  for (const FormatDType& known : kFormatDTypes) {
    if (known.dtype == dtype) return known.name;
  }
  return std::nullopt;
}

int FileOrder(DType dtype) {
  int order = 0;
  while (kFormatDTypes[order].dtype != dtype) ++order;
  return order;
}

StatusOr<int64_t> HeaderLength(std::string_view first, int64_t file_bytes) {
  if (file_bytes < kLengthBytes || std::ssize(first) < kLengthBytes) {
    return absl::DataLossError(
        absl::StrFormat("the file is too short to be safetensors (need at "
                        "least %d bytes, found %d)",
                        kLengthBytes, file_bytes));
  }
  uint64_t length = 0;
  std::memcpy(&length, first.data(), sizeof(length));
  if (length > uint64_t{kMaxHeaderBytes}) {
    return absl::DataLossError(absl::StrFormat(
        "the header is above the limit, or this is not a safetensors file (need "
        "at most %d bytes, found %d)",
        kMaxHeaderBytes, length));
  }
  const auto bytes = static_cast<int64_t>(length);
  if (kLengthBytes + bytes > file_bytes) {
    return absl::DataLossError(absl::StrFormat(
        "the file is cut off in its header (need %d bytes, found %d)",
        kLengthBytes + bytes, file_bytes));
  }
  return bytes;
}

StatusOr<std::string> JsonText(std::string_view text) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::type_error&) {
    return absl::InvalidArgumentError(
        Cat("\"", text, "\" is not UTF-8, which safetensors requires"));
  }
}

StatusOr<std::string> TensorText(const FileTensor& tensor) {
  if (tensor.name == kMetadataName) {
    return absl::InvalidArgumentError(
        Cat("no tensor may be called \"", kMetadataName, "\""));
  }
  if (tensor.name.size() > kMaxNameBytes) {
    return absl::InvalidArgumentError(
        Cat("the name \"", std::string_view(tensor.name).substr(0, 64),
            "...\" is too long (need at most ", kMaxNameBytes, " bytes, found ",
            tensor.name.size(), ")"));
  }
  BELAY_ASSIGN_OR_RETURN(const std::string name, JsonText(tensor.name));
  return absl::StrFormat(
      "%s:{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%d,%d]}", name,
      AbslView(*FormatName(tensor.dtype)), absl::StrJoin(tensor.shape, ","),
      tensor.begin, tensor.end);
}

StatusOr<std::string> HeaderText(const FileHeader& header) {
  std::vector<std::string> members;
  if (!header.metadata.empty()) {
    std::vector<std::string> texts;
    for (const auto& [name, text] : header.metadata) {
      BELAY_ASSIGN_OR_RETURN(const std::string json_name, JsonText(name));
      BELAY_ASSIGN_OR_RETURN(const std::string json_text, JsonText(text));
      texts.push_back(absl::StrCat(json_name, ":", json_text));
    }
    members.push_back(absl::StrFormat("\"%s\":{%s}", AbslView(kMetadataName),
                                      absl::StrJoin(texts, ",")));
  }
  for (const FileTensor& tensor : header.tensors) {
    BELAY_ASSIGN_OR_RETURN(members.emplace_back(), TensorText(tensor));
  }
  std::string text(kLengthBytes, '\0');
  absl::StrAppend(&text, "{", absl::StrJoin(members, ","), "}");
  while (std::ssize(text) % kAlignment != 0) text += ' ';
  const uint64_t length = text.size() - kLengthBytes;
  if (length > uint64_t{kMaxHeaderBytes}) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "too many tensors for the header of one file; cut the export with "
        "max_file_bytes (need at most %d bytes, found %d)",
        kMaxHeaderBytes, length));
  }
  std::memcpy(text.data(), &length, sizeof(length));
  return text;
}

}  // namespace belay::safetensors
