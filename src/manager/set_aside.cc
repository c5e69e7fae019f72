#include "manager/set_aside.h"

#include <algorithm>
#include <filesystem>
#include <ranges>
#include <string_view>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/printable.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "format/paths.h"
#include "io/files/ensure_directory.h"
#include "io/files/posix_file.h"
#include "manager/manager_files.h"

namespace belay {
namespace {

constexpr int64_t kMostAside = 1'000'000;

// Whether it is a name that NextAside may choose. Others lead elsewhere, into a
// step or out of the directory.
bool IsAsideName(std::string_view name, std::string_view prefix) {
  int64_t number = 0;
  return absl::SimpleAtoi(AbslView(name.substr(name.rfind('_') + 1)),
                          &number) &&
         name == AsideName(prefix, number);
}

// The directory for what is moved: one in `order.dir` and nowhere else.
StatusOr<std::string> MakeAside(const AsideOrder& order) {
  const std::string aside = JoinPath(order.dir, order.aside);
  if (!IsAsideName(order.aside, order.prefix)) {
    return absl::InvalidArgumentError(PrintableText(absl::StrCat(
        "set steps of \"", order.dir, "\" aside: not a name for that (need ",
        AsideName(order.prefix, 1), ", found \"", order.aside, "\")")));
  }
  BELAY_RETURN_IF_ERROR(EnsureDirectory(aside, order.durable));
  std::error_code error;
  const auto status = std::filesystem::symlink_status(aside, error);
  if (status.type() == std::filesystem::file_type::directory) return aside;
  return absl::FailedPreconditionError(
      absl::StrCat("set steps of \"", order.dir, "\" aside: \"", aside,
                   "\" is a symbolic link or not a directory; move it away"));
}

Status Move(const AsideOrder& order, int64_t step) {
  BELAY_ASSIGN_OR_RETURN(const std::string aside, MakeAside(order));
  const std::string name = StepName(step, order.prefix);
  return Rename(JoinPath(order.dir, name), JoinPath(aside, name));
}

// Whether the step is gone. What may not be deleted is noted.
StatusOr<bool> Delete(const AsideOrder& order, int64_t step,
                      std::vector<std::string>& notes) {
  if (!std::ranges::binary_search(order.deletable, step)) {
    notes.push_back(absl::StrFormat(
        "step %d is set aside and not deleted: no manager has saved it, or it "
        "is kept for good",
        step));
    return false;
  }
  const Status status = RemoveStep(
      JoinPath(order.dir, StepName(step, order.prefix)), order.durable);
  if (!absl::IsFailedPrecondition(status)) {
    BELAY_RETURN_IF_ERROR(status);
    return true;
  }
  notes.push_back(absl::StrFormat("step %d is set aside and not deleted: %s",
                                  step, status.message()));
  return false;
}

}  // namespace

StatusOr<std::string> NextAside(const std::string& dir,
                                std::string_view prefix) {
  for (int64_t number = 1; number < kMostAside; ++number) {
    std::string name = AsideName(prefix, number);
    BELAY_ASSIGN_OR_RETURN(const bool is_taken, Exists(JoinPath(dir, name)));
    if (!is_taken) return name;
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      "set steps of \"", dir, "\" aside: no number is left for a directory"));
}

StatusOr<AsideOutcome> SetAside(const AsideOrder& order,
                                const std::vector<int64_t>& steps) {
  AsideOutcome outcome;
  for (const int64_t step : std::ranges::reverse_view(steps)) {
    bool is_gone = false;
    if (order.how == NewerSteps::kDelete) {
      BELAY_ASSIGN_OR_RETURN(is_gone, Delete(order, step, outcome.notes));
    }
    if (!is_gone) BELAY_RETURN_IF_ERROR(Move(order, step));
    (is_gone ? outcome.deleted : outcome.moved).push_back(step);
  }
  std::ranges::reverse(outcome.moved);
  std::ranges::reverse(outcome.deleted);
  if (!order.durable || outcome.moved.empty()) return outcome;
  BELAY_RETURN_IF_ERROR(SyncDirectory(JoinPath(order.dir, order.aside)));
  BELAY_RETURN_IF_ERROR(SyncDirectory(order.dir));
  return outcome;
}

}  // namespace belay
