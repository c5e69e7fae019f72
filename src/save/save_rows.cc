// The part of a save in which ranks learn where their rows stand.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/catch_bad_alloc.h"
#include "base/catch_exceptions.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "mpi/all_to_all.h"
#include "save/save_run.h"
#include "values/rows/id_save.h"
#include "values/rows/rank_rows.h"
#include "values/rows/row_counts.h"

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
        return CatchBadAlloc(
            "the rows of all ranks", [&]() -> StatusOr<Briefing> {
              BELAY_ASSIGN_OR_RETURN(MergedRows merged,
                                     MergeRowCounts(gathered));
              keys.insert(keys.end(),
                          std::make_move_iterator(merged.keys.begin()),
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
    BELAY_RETURN_IF_ERROR(TakeIds(block));
    BELAY_ASSIGN_OR_RETURN(shard,
                           TakeBlock(run.team.rank(), run.team.size(), block));
    NoteNoSender(block);
  }
  return absl::OkStatus();
}

// The number of ids on all ranks that are less than `end`, or -1. Collective.
int64_t CountBelow(Team& team, const std::vector<int64_t>& ids, int64_t end) {
  std::vector<int64_t> count = {std::lower_bound(ids.begin(), ids.end(), end) -
                                std::lower_bound(ids.begin(), ids.end(), 0)};
  return SumAll(team, count).ok() ? count[0] : -1;
}

// The least id of a key that no rank has, if each of the others is there once.
// Collective.
std::optional<int64_t> FindMissing(Team& team, const SortedIds& sorted,
                                   int64_t total) {
  int64_t begin = 0, end = total;  // all before `begin` are there
  while (begin < end) {
    const int64_t middle = begin + (end - begin) / 2;
    const int64_t count = CountBelow(team, sorted.ids, middle + 1);
    if (count < 0) return std::nullopt;
    if (count > middle) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  const bool is_there =
      begin >= total || CountBelow(team, sorted.ids, begin + 1) !=
                            CountBelow(team, sorted.ids, begin);
  return is_there ? std::nullopt : std::optional<int64_t>(begin);
}

// Adds to a failure that all ranks know which id is missing, if another one is
// out of range for that reason. Collective; agreed.
Status NameMissing(SaveRun& run, const Status& failure) {
  std::string own;
  CatchExceptions([&] {
    own = KeyOutOfRange(run.id_blocks);
    return absl::OkStatus();
  }).IgnoreError();
  const auto keys = Gather(run.team, own);
  const auto key = FromRoot(run.team, [&]() -> StatusOr<std::string> {
    for (const std::string& one : keys.value_or(std::vector<std::string>())) {
      if (!one.empty()) return one;
    }
    return "";
  });
  if (!keys.ok() || !key.ok() || key->empty()) return failure;
  SortedIds sorted;
  const Status status = CatchExceptions([&] {
    sorted = SortIds(run.id_blocks, *key);
    return absl::OkStatus();
  });
  std::vector<int64_t> total = {sorted.total};
  if (!MaxAll(run.team, total, status).ok()) return failure;
  const std::optional<int64_t> id = FindMissing(run.team, sorted, total[0]);
  if (!id) return failure;
  return Status(failure.code(),
                Cat(failure.message(), "; no rank has id ", *id));
}

// Sends rows with ids to the ranks that write them. Collective; agreed.
Status SortById(SaveRun& run) {
  run.stages.Enter("ids");
  std::vector<IdWindow> windows;
  BlocksByKey by_key;
  Status status = CatchExceptions([&] {
    return CatchBadAlloc("rows in the order of their ids", [&]() -> Status {
      BELAY_RETURN_IF_ERROR(TakeBlocks(run));
      windows = CutWindows(run.id_blocks, run.team.size());
      by_key = IndexBlocks(run.id_blocks);
      return absl::OkStatus();
    });
  });
  std::vector<int64_t> most = {std::ssize(windows)};
  BELAY_RETURN_IF_AGREED(MaxAll(run.team, most, status));
  windows.resize(static_cast<size_t>(most[0]));
  Mail mail(run.team.size());
  for (const IdWindow& window : windows) {
    const Status sent =
        ExchangeMail(run.team, "rows on their way", mail, [&](Messages& to) {
          return status.ok() ? PackWindow(run.id_blocks, window, to) : status;
        });
    if (absl::IsInvalidArgument(sent)) return NameMissing(run, sent);
    BELAY_RETURN_IF_AGREED(sent);
    status = CatchExceptions(
        [&] { return FillBlocks(mail.from, by_key, run.id_blocks); });
  }
  if (status.ok()) status = CheckFilled(run.id_blocks);
  for (IdBlock& block : run.id_blocks) {
    block.senders = {};
    block.sender_memory = nullptr;
  }
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
