// What of a checkpoint goes into an export.

#include <algorithm>

#include "absl/strings/str_format.h"
#include "base/catch_bad_alloc.h"
#include "base/key_patterns.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "plan/stored/single_array.h"
#include "restore/array_reading.h"
#include "safetensors/export_stages.h"

namespace belay {
namespace {

bool IsMetadata(const StoredArray& array) {
  return array.dtype == DType::kString &&
         std::string_view(array.key).starts_with(kSafetensorsMetadata);
}

// Reads a string of the checkpoint.
StatusOr<std::string> ReadStoredText(const std::string& path,
                                     const SavedCheckpoint& saved,
                                     const ArrayEntry& entry, size_t number,
                                     bool checksums) {
  const StoredArray& array = saved.arrays[number];
  return CatchBadAlloc(
      absl::StrFormat("the text \"%s\"", array.key),
      [&]() -> StatusOr<std::string> {
        std::string text(array.string_bytes, '\0');
        ArrayReading reading(IndexOfArray(saved, static_cast<int32_t>(number),
                                          entry, WholeBox(IoShape(array))),
                             path);
        BELAY_RETURN_IF_ERROR(reading.Read(
            {.key = array.key, .dtype = DType::kString, .text = &text}));
        if (checksums) BELAY_RETURN_IF_ERROR(reading.CheckBlocks());
        return text;
      });
}

// Why an array cannot be exported; "": it can.
std::string ReasonAgainst(const StoredArray& array) {
  if (safetensors::FormatName(array.dtype)) return "";
  return absl::StrFormat("safetensors has no form for %s",
                         DTypeName(array.dtype));
}

// The arrays that the expressions choose, but for metadata.
StatusOr<std::vector<const StoredArray*>> Chosen(const SavedCheckpoint& saved,
                                                 const ExportOptions& options) {
  BELAY_ASSIGN_OR_RETURN(const KeyPatterns patterns,
                         KeyPatterns::Compile(options.keys));
  std::vector<std::string_view> keys;
  std::vector<const StoredArray*> chosen;
  for (const StoredArray& array : saved.arrays) {
    if (IsMetadata(array)) continue;
    keys.push_back(array.key);
    if (options.keys.empty() || patterns.Find(array.key) >= 0) {
      chosen.push_back(&array);
    }
  }
  BELAY_RETURN_IF_ERROR(patterns.CheckAllMatch(keys));
  return chosen;
}

Status CheckLeftOut(const std::vector<LeftOut>& left_out) {
  if (left_out.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrFormat(
      "key \"%s\": %s; choose others with keys, or leave such values out with "
      "leave_out_others (%d of them)",
      left_out[0].name, left_out[0].reason, left_out.size()));
}

}  // namespace

StatusOr<ExportSelection> SelectForExport(const std::string& path,
                                          const SavedCheckpoint& saved,
                                          const ExportOptions& options) {
  ExportSelection selection{.metadata = options.metadata};
  BELAY_ASSIGN_OR_RETURN(const std::vector<const StoredArray*> chosen,
                         Chosen(saved, options));
  for (const StoredArray* array : chosen) {
    const std::string reason = ReasonAgainst(*array);
    if (!reason.empty()) {
      selection.left_out.push_back({array->key, reason});
      continue;
    }
    selection.tensors.push_back({.name = array->key,
                                 .dtype = array->dtype,
                                 .shape = array->shape,
                                 .begin = 0,
                                 .end = ArrayBytes(*array)});
  }
  if (!options.leave_out_others) {
    BELAY_RETURN_IF_ERROR(CheckLeftOut(selection.left_out));
  }
  const std::vector<ArrayEntry> entries = ArrayEntries(saved);
  for (size_t i = 0; i < saved.arrays.size(); ++i) {
    const StoredArray& array = saved.arrays[i];
    const std::string name =
        IsMetadata(array) ? array.key.substr(kSafetensorsMetadata.size()) : "";
    if (!IsMetadata(array) || selection.metadata.contains(name)) continue;
    BELAY_ASSIGN_OR_RETURN(
        selection.metadata[name],
        ReadStoredText(path, saved, entries[i], i, options.checksums));
  }
  return selection;
}

}  // namespace belay
