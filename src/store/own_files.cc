#include "store/own_files.h"

#include <cstdint>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "geometry/digits.h"
#include "store/paths.h"
#include "store/posix_file.h"

namespace belay {
namespace {

constexpr size_t kMaxForeign = 5;

// "data_<digits>_of_<digits>.h5".
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

// The marker of a save, whose number has 16 hexadecimal digits.
bool IsMarker(std::string_view name) {
  return name.size() == MarkerName(0).size() &&
         name.starts_with(MarkerName(0).substr(0, 7));
}

// What NFS calls a file that was removed while somebody has it open.
bool IsOpenElsewhere(std::string_view name) { return name.starts_with(".nfs"); }

}  // namespace

StatusOr<std::vector<std::string>> ForeignNames(const std::string& directory) {
  BELAY_ASSIGN_OR_RETURN(std::vector<std::string> names,
                         ListDirectory(directory));
  std::erase_if(names, [](const std::string& name) {
    return name == IndexName() || IsDataFile(name) || IsMarker(name);
  });
  if (names.size() > kMaxForeign) names.resize(kMaxForeign);
  return names;
}

Status RemoveOwn(const std::string& path) {
  BELAY_ASSIGN_OR_RETURN(std::vector<std::string> foreign, ForeignNames(path));
  std::erase_if(foreign, IsOpenElsewhere);
  if (foreign.empty()) return RemoveTree(path);
  return absl::FailedPreconditionError(
      absl::StrCat("remove \"", path, "\": not belay's: \"",
                   absl::StrJoin(foreign, "\", \""), "\"; nothing is removed"));
}

Status CheckReplaceable(const std::string& path) {
  BELAY_ASSIGN_OR_RETURN(const bool is_checkpoint,
                         Exists(JoinPath(path, IndexName())));
  if (!is_checkpoint) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "overwrite \"%s\": not a checkpoint; nothing is removed", path));
  }
  BELAY_ASSIGN_OR_RETURN(const std::vector<std::string> foreign,
                         ForeignNames(path));
  if (foreign.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("overwrite \"", path, "\": not belay's: \"",
                   absl::StrJoin(foreign, "\", \""), "\"; nothing is removed"));
}

}  // namespace belay
