#include "io/steps/belay_files.h"

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/printable.h"
#include "base/process/nonce.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "format/paths.h"
#include "geometry/digits.h"
#include "io/files/posix_file.h"

namespace belay {
namespace {

constexpr size_t kMaxShown = 5;

// The marker of a save, whose number has 16 hexadecimal digits.
bool IsWholeMarker(std::string_view name) {
  return name.size() == MarkerName(0).size() &&
         name.starts_with(MarkerName(0).substr(0, 7));
}

// What NFS calls a file that was removed while somebody has it open.
bool IsOpenElsewhere(std::string_view name) { return name.starts_with(".nfs"); }

bool IsOwn(std::string_view name) {
  return name == IndexName() || name == MetadataName() || IsDataFile(name) ||
         IsWholeMarker(name);
}

// Says which of the names is not belay's, if any.
Status NoForeign(std::string_view operation, const std::string& path,
                 std::string_view consequence, std::vector<std::string> names) {
  if (names.empty()) return absl::OkStatus();
  if (names.size() > kMaxShown) names.resize(kMaxShown);
  return absl::FailedPreconditionError(
      PrintableText(Cat(operation, " \"", path, "\": not written by belay: \"",
                        absl::StrJoin(names, "\", \""), "\"; ", consequence)));
}

}  // namespace

bool IsDataFile(std::string_view name) {
  constexpr std::string_view kOf = "_of_";
  if (!name.starts_with("data_") || !name.ends_with(".h5")) return false;
  name.remove_prefix(5);
  name.remove_suffix(3);
  const size_t of = name.find(kOf);
  return of != std::string_view::npos &&
         ParseDigits(name.substr(0, of), INT64_MAX).has_value() &&
         ParseDigits(name.substr(of + kOf.size()), INT64_MAX).has_value();
}

Status CheckOnlyOwn(std::string_view operation, const std::string& path,
                    std::string_view consequence) {
  BELAY_ASSIGN_OR_RETURN(std::vector<std::string> names, ListDirectory(path));
  std::erase_if(names, IsOwn);
  return NoForeign(operation, path, consequence, std::move(names));
}

Status RemoveOwn(const std::string& path) {
  BELAY_ASSIGN_OR_RETURN(std::vector<std::string> names, ListDirectory(path));
  std::erase_if(names, [](const std::string& name) {
    return IsOwn(name) || IsOpenElsewhere(name);
  });
  BELAY_RETURN_IF_ERROR(
      NoForeign("remove", path, "nothing is removed", std::move(names)));
  // Whoever is about to commit it has all of it or nothing.
  std::string_view step = path;
  WithoutInProgress(step);
  const std::string aside = InProgressPath(step, NewNonce());
  BELAY_RETURN_IF_ERROR(Rename(path, aside));
  return RemoveTree(aside);
}

Status CheckReplaceable(const std::string& path) {
  BELAY_ASSIGN_OR_RETURN(const bool is_checkpoint,
                         Exists(JoinPath(path, IndexName())));
  const Status own = CheckOnlyOwn("overwrite", path, "nothing is removed");
  // What has lost its index is still no one else's.
  const bool is_foreign =
      absl::IsFailedPrecondition(own) || absl::IsInvalidArgument(own);
  if (is_checkpoint || !is_foreign) return own;
  return absl::FailedPreconditionError(
      absl::StrFormat("overwrite \"%s\": not a checkpoint; nothing is removed; "
                      "move it away or choose another one",
                      path));
}

}  // namespace belay
