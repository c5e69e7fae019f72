// The part of a save in which ranks learn where their rows stand.
#include <cstddef>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "base/with_memory.h"
#include "checkpoint/save_run.h"
#include "parallel/all_to_all.h"
#include "types/id_rows.h"
#include "types/rank_rows.h"
#include "types/row_counts.h"

namespace belay {

Status PlaceRowsTogether(SaveRun& run, std::vector<KeyRows>& keys) {
  std::vector<int64_t> any = {HasRows(run.shards) ? 1 : 0};
  BELAY_RETURN_IF_AGREED(MaxAll(run.team, any));
  run.cache.placements.clear();
  run.cache.any_ids = false;
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
          return Briefing{.common = merged.any_ids ? "ids" : "",
                          .parts = std::move(merged.placements)};
        });
      }));
  run.cache.placements = DecodePlacements(briefed.part);
  run.cache.any_ids = !briefed.common.empty();
  return absl::OkStatus();
}

namespace {

// Lets shards with ids be blocks of consecutive ones, and packs what goes into
// the blocks of all ranks. Local.
StatusOr<std::vector<std::string>> PackRows(SaveRun& run) {
  for (const RowPlacement& placement : run.cache.placements) {
    if (!placement.has_ids) continue;
    Shard& shard = run.shards[static_cast<size_t>(placement.shard)];
    IdBlock& block = run.id_blocks.emplace_back();
    block.shard = shard;
    block.total = placement.total;
    block.holders = placement.holders;
    BELAY_ASSIGN_OR_RETURN(shard,
                           TakeBlock(run.team.rank(), run.team.size(), block));
  }
  return PackById(run.id_blocks, run.team.size());
}

// Sends rows with ids to the ranks that write them. Collective; agreed.
Status SortById(SaveRun& run) {
  run.stations.Enter("ids");
  BELAY_ASSIGN_OR_RETURN_AGREED(
      const ReceivedBytes received,
      AllToAllOf(run.team, "rows on their way", [&] { return PackRows(run); }));
  return Agree(run.team, WithMemory("rows in the order of their ids", [&] {
                 return FillBlocks(received.FromAll(), run.id_blocks);
               }));
}

}  // namespace

Status TakePlaces(SaveRun& run) {
  PlaceShards(run.cache.placements, run.shards);
  if (run.cache.any_ids) BELAY_RETURN_IF_AGREED(SortById(run));
  // What is stored of them is as long as that of all ranks.
  for (const RowPlacement& placement : run.cache.placements) {
    const auto shard = static_cast<size_t>(placement.shard);
    if (run.cache.forms.empty()) break;
    run.cache.forms[shard].shape = run.shards[shard].global_shape;
  }
  return absl::OkStatus();
}

}  // namespace belay
