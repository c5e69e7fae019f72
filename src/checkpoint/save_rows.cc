// The part of a save in which ranks learn where their rows stand.
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "base/with_memory.h"
#include "checkpoint/save_run.h"
#include "types/rank_rows.h"

namespace belay {

Status PlaceRowsTogether(SaveRun& run, std::vector<KeyRows>& keys) {
  std::vector<int64_t> any = {HasRows(run.shards) ? 1 : 0};
  BELAY_RETURN_IF_AGREED(MaxAll(run.team, any));
  run.cache.placements.clear();
  if (any[0] == 0) return absl::OkStatus();
  BELAY_ASSIGN_OR_RETURN_AGREED(const std::vector<std::string> gathered,
                                Gather(run.team, EncodeRowCounts(run.shards)));
  BELAY_ASSIGN_OR_RETURN_AGREED(
      const Briefed briefed,
      FromRootInParts(run.team, [&]() -> StatusOr<Briefing> {
        return WithMemory("the rows of all ranks", [&]() -> StatusOr<Briefing> {
          BELAY_ASSIGN_OR_RETURN(MergedRows merged, MergeRowCounts(gathered));
          keys.insert(keys.end(), std::make_move_iterator(merged.keys.begin()),
                      std::make_move_iterator(merged.keys.end()));
          return Briefing{.parts = std::move(merged.placements)};
        });
      }));
  run.cache.placements = DecodePlacements(briefed.part);
  PlaceShards(run.cache.placements, run.shards);
  return absl::OkStatus();
}

}  // namespace belay
