// The part of a restore that converts.

#include <utility>

#include "base/status_macros.h"
#include "checkpoint/restore_run.h"
#include "types/conversions.h"

namespace belay {

bool MayConvert(const RestoreOptions& options) {
  return options.allow_dtype_cast || options.allow_shape_mismatch;
}

Status StageTogether(RestoreRun& run) {
  std::string bytes;
  if (run.team.is_root()) bytes = EncodeConversions(run.result.conversions);
  BELAY_RETURN_IF_AGREED(Broadcast(run.team, bytes));
  run.result.conversions = DecodeConversions(bytes);
  if (run.result.conversions.empty()) return absl::OkStatus();
  StatusOr<Staging> staging =
      StageForRestore(run.shards, StoredFormsOf(run.result.conversions));
  BELAY_RETURN_IF_AGREED(Agree(run.team, staging.status()));
  run.staging = *std::move(staging);
  run.shards = run.staging.shards;
  run.result.counters.staged_bytes = run.staging.bytes;
  return absl::OkStatus();
}

void HandOverStation(RestoreRun& run) {
  if (run.result.conversions.empty()) return;
  run.stations.Enter("convert");
  HandOver(run.staging);
}

}  // namespace belay
