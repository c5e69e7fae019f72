// The part of a restore that knows what is converted.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "base/text.h"
#include "pipeline/lost_values.h"
#include "restore/restore_stages.h"
#include "values/conversions.h"

namespace belay {

bool MayConvert(const RestoreOptions& options) {
  const Tolerance most = MostTolerance(options);
  return most.dtype || most.lengths;
}

StatusOr<std::vector<StoredForm>> ShareForms(
    RestoreFrame& frame, const std::vector<Shard>& shards,
    const std::vector<Tolerance>& tolerances,
    std::vector<Conversion>& conversions) {
  std::string bytes;
  if (frame.context.is_root()) bytes = EncodeConversions(conversions);
  BELAY_RETURN_IF_AGREED(Broadcast(frame.context, bytes));
  conversions = DecodeConversions(bytes);
  if (conversions.empty()) return std::vector<StoredForm>();
  StatusOr<std::vector<StoredForm>> forms =
      FormsOf(shards, tolerances, conversions);
  BELAY_RETURN_IF_AGREED(Agree(frame.context, forms.status()));
  return forms;
}

Status TellLostValues(RestoreFrame& frame, const FormedShards& formed,
                      RestoreResult& result) {
  const bool is_lossy =
      std::any_of(result.conversions.begin(), result.conversions.end(),
                  [](const Conversion& one) {
                    return IsLossyConversion(one.stored_dtype, one.dtype);
                  });
  if (!is_lossy) return absl::OkStatus();
  std::vector<int64_t> has_lost = {AnyLost(formed.losses) ? 1 : 0};
  BELAY_RETURN_IF_AGREED(MaxAll(frame.context, has_lost));
  if (has_lost[0] == 0) return absl::OkStatus();
  BELAY_ASSIGN_OR_RETURN_AGREED(
      std::vector<std::string> warnings,
      TellLost(frame.context, Cat("restore \"", result.path, "\""),
               ListLost(formed, ConversionWay::kFromStored),
               frame.options.strict_dtype));
  result.warnings = std::move(warnings);
  return absl::OkStatus();
}

}  // namespace belay
