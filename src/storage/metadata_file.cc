#include "storage/metadata_file.h"

#include "core/checksum.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "format/paths.h"
#include "nlohmann/json.hpp"
#include "storage/posix_file.h"

namespace belay {
namespace {

using nlohmann::json;

constexpr char kMetadataFormat[] = "belay metadata";
constexpr int64_t kMetadataVersion = 1;
constexpr size_t kMaxTextBytes = size_t{1} << 20;

Status DamagedMetadata(std::string_view operation, std::string_view cause) {
  return absl::DataLossError(Cat(operation, ": damaged: ", cause));
}

uint32_t ComputeChecksum(const json& entries) {
  // Text that is not UTF-8 was not written by belay; its checksum will differ.
  const std::string text =
      entries.dump(-1, ' ', false, json::error_handler_t::replace);
  return StandardCrc(CrcRegister(0, text.data(), text.size()), text.size());
}

}  // namespace

StatusOr<std::string> MetadataText(const Metadata& metadata) {
  size_t bytes = 0;
  for (const auto& [name, value] : metadata) {
    bytes += name.size() + value.size();
    if (IsUtf8(name) && IsUtf8(value)) continue;
    return absl::InvalidArgumentError(
        Cat("metadata ", QuotedText(name), ": not UTF-8"));
  }
  if (bytes > kMaxTextBytes) {
    return absl::InvalidArgumentError(Cat("metadata: too long (need at most ",
                                          kMaxTextBytes, " bytes, found ",
                                          bytes, ")"));
  }
  const json entries(metadata);
  const json document = {{"format", kMetadataFormat},
                         {"version", kMetadataVersion},
                         {"crc32c", ComputeChecksum(entries)},
                         {"metadata", entries}};
  return document.dump(1) + "\n";
}

StatusOr<Metadata> ParseMetadata(std::string_view text,
                                 std::string_view operation) {
  // Later versions may have more members.
  constexpr int kMaxLevels = 16;
  constexpr int kMaxValues = 1 << 20;
  const std::string too_much = TooMuchJson(text, kMaxLevels, kMaxValues);
  if (!too_much.empty()) return DamagedMetadata(operation, too_much);
  const json document = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!document.is_object() ||
      document.value("format", json()) != kMetadataFormat) {
    return DamagedMetadata(operation, "not written by belay");
  }
  const json version = document.value("version", json());
  if (version.is_number_integer() && version > kMetadataVersion) {
    return absl::UnimplementedError(
        Cat(operation, ": written by a newer belay"));
  }
  const json entries = document.value("metadata", json());
  if (version != kMetadataVersion || !entries.is_object()) {
    return DamagedMetadata(operation, "version or metadata");
  }
  Metadata metadata;
  size_t bytes = 0;
  for (const auto& [name, value] : entries.items()) {
    if (!value.is_string()) return DamagedMetadata(operation, QuotedText(name));
    metadata[name] = value.get<std::string>();
    bytes += name.size() + metadata[name].size();
  }
  if (bytes > kMaxTextBytes) {
    return DamagedMetadata(operation,
                           Cat("too long (need at most ", kMaxTextBytes,
                               " bytes, found ", bytes, ")"));
  }
  const json need = document.value("crc32c", json());
  const uint32_t found = ComputeChecksum(entries);
  if (!need.is_number_unsigned() || need != found) {
    return DamagedMetadata(
        operation, Cat("checksum (need ", need.dump(), ", found ", found, ")"));
  }
  return metadata;
}

// --- Metadata file ---

StatusOr<Metadata> ReadMetadataFile(const std::string& directory) {
  const std::string path = JoinPath(directory, MetadataName());
  BELAY_ASSIGN_OR_RETURN(const bool exists, Exists(path));
  if (!exists) return Metadata();
  BELAY_ASSIGN_OR_RETURN(const std::string text,
                         ReadWhole(path, kMaxMetadataFileBytes));
  return ParseMetadata(text, Cat("read \"", path, "\""));
}

}  // namespace belay
