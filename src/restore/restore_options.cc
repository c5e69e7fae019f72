#include "restore/restore_options.h"

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "pipeline/save_options.h"
#include "values/strictness.h"

namespace belay {

Status CheckReading(std::string_view operation, const std::string& path,
                    const RestoreOptions& options) {
  const std::string start =
      absl::StrFormat("%s \"%s\"", AbslView(operation), path);
  BELAY_RETURN_IF_ERROR(CheckBytesInFlight(start, options.max_bytes_in_flight));
  if (const Status known = CheckMismatchPolicies(options); !known.ok()) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%s: %s", start, known.message()));
  }
  if (options.read_sharing > ReadSharing::kOnce) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "%s: read_sharing is out of range (need 0 to 2, found %d)", start,
        static_cast<int>(options.read_sharing)));
  }
  if (options.read_sharing == ReadSharing::kEachRank &&
      options.primary_replica) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "%s: primary_replica says that others do not read, but read_sharing is "
        "kEachRank",
        start));
  }
  return absl::OkStatus();
}

ReadRules ReadRulesOf(const RestoreOptions& options) {
  return {.sharing = options.read_sharing,
          .primary_replica = options.primary_replica,
          .max_bytes_in_flight = options.max_bytes_in_flight};
}

Status CheckNoArgs(const std::string& dir, const RestoreOptions& options) {
  const char* const name = !options.args.empty()        ? "args"
                           : options.selects != nullptr ? "selects"
                           : options.on_open != nullptr ? "on_open"
                           : !IsUsuallyStrict(options)
                               ? "missing, unexpected or mismatched"
                               : nullptr;
  if (name == nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat(
      "restore \"%s\": the option %s is for values that the program has: say "
      "it by ArrayRestoreArgs",
      dir, name));
}

}  // namespace belay
