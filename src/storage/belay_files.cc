#include "storage/belay_files.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/integers.h"
#include "core/program_words.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "storage/commit.h"
#include "storage/posix_file.h"

namespace belay {
namespace {

constexpr size_t kMaxShown = 5;

// A marker has a prefix and 16 hexadecimal digits.
bool IsWholeMarker(std::string_view name) {
  return name.size() == MarkerName(0).size() &&
         name.starts_with(MarkerName(0).substr(0, 7));
}

// NFS renames a file so when it is removed while somebody has it open.
bool IsOpenElsewhere(std::string_view name) { return name.starts_with(".nfs"); }

bool IsOwn(std::string_view name) {
  return name == IndexName() || name == MetadataName() || IsDataFile(name) ||
         IsWholeMarker(name);
}

// Returns an error that lists these names, if there are any.
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
  // Renamed first: whoever is about to commit it gets all of it or nothing.
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
  // A step without its index may still hold only files of belay.
  const bool is_foreign =
      absl::IsFailedPrecondition(own) || absl::IsInvalidArgument(own);
  if (is_checkpoint || !is_foreign) return own;
  return absl::FailedPreconditionError(
      absl::StrFormat("overwrite \"%s\": not a checkpoint; nothing is removed; "
                      "move it away or choose another one",
                      path));
}

// --- Missing step ---

namespace {

constexpr size_t kMaxStepsToList = 10;
constexpr int kNewestToList = 5;
constexpr std::string_view kUseEarlier = "; use an earlier step, such as ";
constexpr std::string_view kNoEarlier = "; no earlier step is there";

std::string WhatIsThere(const std::string& path) {
  const std::string dir = ParentOf(path);
  if (Exists(JoinPath(dir, IndexName())).value_or(false)) {
    return Cat("\"", dir, "\" is a step itself, which ",
               kLatestStepWord.InProgram(), " takes");
  }
  const std::optional<StepLabel> label = ParseStepName(NameOf(path));
  if (!label) return "nothing has this name";
  const StatusOr<std::vector<int64_t>> steps =
      CommittedSteps(dir, label->prefix);
  return steps.ok() ? StepsText(*steps) : std::string(steps.status().message());
}

}  // namespace

std::string StepsText(const std::vector<int64_t>& steps) {
  if (steps.empty()) return "there are no steps";
  if (steps.size() == 1) return absl::StrCat("the only step is ", steps[0]);
  if (steps.size() <= kMaxStepsToList) {
    return absl::StrCat("the steps are ", absl::StrJoin(steps, ", "));
  }
  return absl::StrCat(
      "there are ", steps.size(), " steps, the newest ",
      absl::StrJoin(steps.end() - kNewestToList, steps.end(), ", "));
}

Status NoIndex(std::string_view operation, const std::string& path) {
  return absl::NotFoundError(Cat(operation, " \"", path, "\": the step has no ",
                                 IndexName(),
                                 "; parts of it were deleted, or not copied"));
}

Status NoSuchStep(std::string_view operation, const std::string& path) {
  if (Exists(path).value_or(false)) return NoIndex(operation, path);
  return absl::NotFoundError(
      Cat(operation, " \"", path, "\": no such step; ", WhatIsThere(path)));
}

std::string EarlierStepHint(const std::string& path) {
  const std::optional<StepLabel> label = ParseStepName(NameOf(path));
  if (!label) return "";
  const StatusOr<std::vector<int64_t>> steps =
      CommittedSteps(ParentOf(path), label->prefix);
  if (!steps.ok()) return "";
  const auto end = std::ranges::lower_bound(*steps, label->step);
  if (end == steps->begin()) return std::string(kNoEarlier);
  return Cat(kUseEarlier, *(end - 1));
}

Status WithEarlierStep(const Status& status, const std::string& path) {
  const bool has_hint = WithoutEarlierStep(status) != status;
  if (!absl::IsDataLoss(status) || has_hint) return status;
  return Status(status.code(), Cat(status.message(), EarlierStepHint(path)));
}

Status WithoutEarlierStep(const Status& status) {
  std::string message(status.message());
  for (const std::string_view hint : {kUseEarlier, kNoEarlier}) {
    const size_t at = message.rfind(hint);
    if (at == message.npos) continue;
    const size_t end =
        message.find_first_not_of("0123456789", at + hint.size());
    message.erase(at, end == message.npos ? end : end - at);
  }
  return Status(status.code(), message);
}

}  // namespace belay
