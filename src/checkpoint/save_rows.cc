// The part of a save in which ranks learn where their rows stand.
#include <cstddef>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "base/guarded.h"
#include "base/status_macros.h"
#include "base/with_memory.h"
#include "checkpoint/save_run.h"
#include "parallel/all_to_all.h"
#include "types/id_save.h"
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

// Lets shards with ids be blocks of consecutive ones. Local.
Status TakeBlocks(SaveRun& run) {
  for (const RowPlacement& placement : run.cache.placements) {
    if (!placement.has_ids) continue;
    Shard& shard = run.shards[static_cast<size_t>(placement.shard)];
    IdBlock& block = run.id_blocks.emplace_back();
    block.shard = shard;
    block.total = placement.total;
    block.holders = placement.holders;
    BELAY_RETURN_IF_ERROR(CountIds(block));
    BELAY_ASSIGN_OR_RETURN(shard, TakeBlock(run.team.rank(), run.team.size(),
                                            NoteSenders::kYes, block));
  }
  return absl::OkStatus();
}

// Sends rows with ids to the ranks that write them. Collective; agreed.
Status SortById(SaveRun& run) {
  run.stations.Enter("ids");
  std::vector<IdWindow> windows;
  Status status = Guarded([&] {
    return WithMemory("rows in the order of their ids", [&]() -> Status {
      BELAY_RETURN_IF_ERROR(TakeBlocks(run));
      windows = CutWindows(run.id_blocks, run.team.size());
      return absl::OkStatus();
    });
  });
  std::vector<int64_t> most = {std::ssize(windows)};
  BELAY_RETURN_IF_AGREED(MaxAll(run.team, most, status));
  windows.resize(static_cast<size_t>(most[0]));
  Mail mail(run.team.size());
  for (const IdWindow& window : windows) {
    BELAY_RETURN_IF_AGREED(
        ExchangeMail(run.team, "rows on their way", mail, [&](Messages& to) {
          return status.ok() ? PackWindow(run.id_blocks, window, to) : status;
        }));
    status = Guarded([&] { return FillBlocks(mail.from, run.id_blocks); });
  }
  if (status.ok()) status = CheckFilled(run.id_blocks);
  return Agree(run.team, status);
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
