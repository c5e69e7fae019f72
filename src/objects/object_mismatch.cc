#include "objects/object_mismatch.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "base/first_of.h"
#include "base/text.h"
#include "graph/match/attribute_fit.h"
#include "graph/match/load_report.h"

namespace belay {
namespace {

Status IncompatibleError(const std::string& path, const LoadReport& report) {
  std::vector<std::string> lines;
  for (const DifferentValue& value : report.incompatible) {
    lines.push_back(absl::StrFormat("\"%s\" (need %s, found %s)%s", value.key,
                                    value.needed, value.found,
                                    RanksText(value.ranks, report)));
  }
  constexpr size_t kShown = 10;
  return absl::FailedPreconditionError(absl::StrFormat(
      "restore \"%s\": %d %s stored with another dtype or shape, nothing was "
      "restored: %s; %s",
      path, lines.size(), lines.size() == 1 ? "value is" : "values are",
      FirstOf(lines, kShown, ", "), MismatchAdvice(report.incompatible)));
}

// A value of another type, and the save counter, are refused whatever the
// options say.
bool IsRefused(const std::vector<DifferentValue>& incompatible,
               MismatchPolicy mismatched) {
  if (mismatched == MismatchPolicy::kError) return !incompatible.empty();
  return std::any_of(incompatible.begin(), incompatible.end(),
                     [](const DifferentValue& value) {
                       return value.found.starts_with(kTypeText) ||
                              value.key == SaveCounterKey();
                     });
}

}  // namespace

Status RefuseMismatches(CommContext& context, const std::string& path,
                        const LoadReport& report, MismatchPolicy mismatched) {
  if (!IsRefused(report.incompatible, mismatched)) return absl::OkStatus();
  return Agree(context, IncompatibleError(path, report));
}

LoadStatus WithMismatchWarnings(const LoadStatus& status,
                                MismatchPolicy mismatched) {
  if (mismatched != MismatchPolicy::kWarn) return status;
  LoadReport report = status.report();
  for (const DifferentValue& value : report.incompatible) {
    report.warnings.push_back(
        Cat("\"", value.key,
            "\" stays as it is: its stored dtype or shape differs (need ",
            value.needed, ", found ", value.found, ")"));
  }
  return LoadStatus(status.kind(), std::move(report), status.rank_reports());
}

LoadStatus WithConversions(const LoadStatus& status,
                           const std::vector<Conversion>& conversions) {
  LoadReport report = status.report();
  const auto text = [](DType dtype, const Shape& shape) {
    return Cat(DTypeName(dtype), " ", ShapeText(shape));
  };
  for (const Conversion& one : conversions) {
    const bool is_known =
        std::any_of(report.converted.begin(), report.converted.end(),
                    [&](const DifferentValue& value) {
                      return value.stored_key == one.key;
                    });
    if (is_known) continue;
    report.converted.push_back(
        {.key = one.key,
         .stored_key = one.key,
         .needed = text(one.dtype, one.shape),
         .found = text(one.stored_dtype, one.stored_shape),
         .ranks = report.ranks});
  }
  return LoadStatus(status.kind(), std::move(report), status.rank_reports());
}

}  // namespace belay
