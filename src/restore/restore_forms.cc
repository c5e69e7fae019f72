// The part of a restore that knows what is converted.

#include <utility>

#include "base/status_macros.h"
#include "restore/restore_run.h"
#include "values/conversions.h"

namespace belay {

bool MayConvert(const RestoreOptions& options) {
  const Tolerance most = MostTolerance(options);
  return most.dtype || most.lengths;
}

Status ShareForms(RestoreRun& run) {
  std::string bytes;
  if (run.team.is_root()) bytes = EncodeConversions(run.result.conversions);
  BELAY_RETURN_IF_AGREED(Broadcast(run.team, bytes));
  run.result.conversions = DecodeConversions(bytes);
  if (run.result.conversions.empty()) return absl::OkStatus();
  StatusOr<std::vector<StoredForm>> forms =
      FormsOf(run.shards, run.tolerances, run.result.conversions);
  BELAY_RETURN_IF_AGREED(Agree(run.team, forms.status()));
  run.forms = *std::move(forms);
  return absl::OkStatus();
}

}  // namespace belay
