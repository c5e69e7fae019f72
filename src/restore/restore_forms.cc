// The part of a restore that knows what is converted.

#include <string>
#include <vector>

#include "base/status_macros.h"
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

}  // namespace belay
