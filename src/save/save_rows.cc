// The part of a save in which ranks find the positions of their rows.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "core/agreed.h"
#include "core/catch_exceptions.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "mpi/all_to_all.h"
#include "mpi/collective.h"
#include "plan/stored_values.h"
#include "save/save_stages.h"
#include "state/rank_rows.h"

namespace belay {

Agreed<> PlaceRowsTogether(SaveFrame& frame, PreparedSave& save,
                           std::vector<KeyRows>& keys) {
  const std::vector<Shard>& shards = save.listed.shards;
  std::vector<int64_t> any = {HasRows(shards) ? 1 : 0};
  BELAY_RETURN_IF_AGREED(MaxAll(frame.context, any));
  if (any[0] == 0) return {};
  BELAY_ASSIGN_OR_RETURN_AGREED(const std::vector<std::string> gathered,
                                Gather(frame.context, EncodeRowCounts(shards)));
  BELAY_ASSIGN_OR_RETURN_AGREED(
      const RootMessage message,
      FromRootInParts(frame.context, [&]() -> StatusOr<RootMessages> {
        return CatchBadAlloc(
            "the rows of all ranks", [&]() -> StatusOr<RootMessages> {
              BELAY_ASSIGN_OR_RETURN(MergedRows merged,
                                     MergeRowCounts(gathered));
              keys.insert(keys.end(),
                          std::make_move_iterator(merged.keys.begin()),
                          std::make_move_iterator(merged.keys.end()));
              return RootMessages{.common = std::move(merged.common),
                                  .parts = std::move(merged.parts)};
            });
      }));
  RowPlacements placements = DecodePlacements(message.common, message.part);
  save.plan.placements = std::move(placements.shards);
  save.plan.any_ids = placements.any_ids;
  return {};
}

namespace {

// Replaces shards with ids by blocks of consecutive ids.
Status TakeBlocks(const CommContext& context,
                  const std::vector<RowPlacement>& placements,
                  std::vector<Shard>& shards, std::vector<IdBlock>& blocks) {
  for (const RowPlacement& placement : placements) {
    if (!placement.has_ids) continue;
    Shard& shard = shards[static_cast<size_t>(placement.shard)];
    IdBlock& block = blocks.emplace_back();
    block.shard = shard;
    block.total = placement.total;
    block.holders = placement.holders;
    BELAY_RETURN_IF_ERROR(TakeIds(block));
    BELAY_ASSIGN_OR_RETURN(shard,
                           TakeBlock(context.rank(), context.size(), block));
    NoteNoSender(block);
  }
  return absl::OkStatus();
}

// Returns the number of non-negative ids below `end` on all ranks, or -1 on
// failure. Collective.
int64_t CountBelow(CommContext& context, const std::vector<int64_t>& ids,
                   int64_t end) {
  std::vector<int64_t> count = {std::lower_bound(ids.begin(), ids.end(), end) -
                                std::lower_bound(ids.begin(), ids.end(), 0)};
  return SumAll(context, count).ok() ? count[0] : -1;
}

// Returns the smallest id of a key that no rank has, assuming that every other
// id exists once. Collective.
std::optional<int64_t> FindMissing(CommContext& context,
                                   const SortedIds& sorted, int64_t total) {
  int64_t begin = 0, end = total;  // all before `begin` exist
  while (begin < end) {
    const int64_t middle = begin + (end - begin) / 2;
    const int64_t count = CountBelow(context, sorted.ids, middle + 1);
    if (count < 0) return std::nullopt;
    if (count > middle) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  const bool exists =
      begin >= total || CountBelow(context, sorted.ids, begin + 1) !=
                            CountBelow(context, sorted.ids, begin);
  return exists ? std::nullopt : std::optional<int64_t>(begin);
}

// Adds the missing id to an agreed failure, if an id is out of range because
// another id is missing. Collective; agreed.
Agreed<> NameMissing(CommContext& context, const std::vector<IdBlock>& blocks,
                     const Agreed<>& failure) {
  std::string own;
  CatchExceptions([&] {
    own = KeyOutOfRange(blocks);
    return absl::OkStatus();
  }).IgnoreError();
  const auto keys = Gather(context, own);
  const auto key = FromRoot(context, [&]() -> StatusOr<std::string> {
    if (!keys.ok()) return "";
    for (const std::string& one : *keys) {
      if (!one.empty()) return one;
    }
    return "";
  });
  if (!keys.ok() || !key.ok() || key->empty()) return failure;
  SortedIds sorted;
  const Status status = CatchExceptions([&] {
    sorted = SortIds(blocks, *key);
    return absl::OkStatus();
  });
  std::vector<int64_t> total = {sorted.total};
  if (!MaxAll(context, total, status).ok()) return failure;
  const std::optional<int64_t> id = FindMissing(context, sorted, total[0]);
  if (!id) return failure;
  return SameOnAllRanks(
      InsertBeforeRank(failure.status(), Cat("; no rank has id ", *id)));
}

// Sends rows with ids to the ranks that write them. Collective; agreed.
Agreed<std::vector<IdBlock>> SortById(
    SaveFrame& frame, const std::vector<RowPlacement>& placements,
    std::vector<Shard>& shards) {
  frame.stages.Enter("ids");
  CommContext& context = frame.context;
  std::vector<IdBlock> blocks;
  std::vector<IdWindow> windows;
  BlocksByKey by_key;
  Status status = CatchExceptions([&] {
    return CatchBadAlloc("rows in the order of their ids", [&]() -> Status {
      BELAY_RETURN_IF_ERROR(TakeBlocks(context, placements, shards, blocks));
      windows = CutWindows(blocks, context.size());
      by_key = IndexBlocks(blocks);
      return absl::OkStatus();
    });
  });
  std::vector<int64_t> most = {std::ssize(windows)};
  BELAY_RETURN_IF_AGREED(MaxAll(context, most, status));
  windows.resize(static_cast<size_t>(most[0]));
  Mail mail(context.size());
  for (const IdWindow& window : windows) {
    const Agreed<> sent =
        ExchangeMail(context, "rows on their way", mail, [&](Messages& to) {
          return status.ok() ? PackWindow(blocks, window, to) : status;
        });
    if (absl::IsInvalidArgument(sent.status())) {
      return NameMissing(context, blocks, sent).error();
    }
    BELAY_RETURN_IF_AGREED(sent);
    status =
        CatchExceptions([&] { return FillBlocks(mail.from, by_key, blocks); });
  }
  if (status.ok()) status = CheckFilled(blocks);
  for (IdBlock& block : blocks) {
    block.senders = {};
    block.sender_memory = nullptr;
  }
  BELAY_RETURN_IF_AGREED(Agree(context, status));
  return blocks;
}

}  // namespace

Agreed<> TakePlaces(SaveFrame& frame, PreparedSave& save) {
  RankPlan& plan = save.plan;
  std::vector<Shard>& shards = save.listed.shards;
  PlaceShards(plan.placements, shards);
  if (plan.any_ids) {
    BELAY_ASSIGN_OR_RETURN_AGREED(save.blocks,
                                  SortById(frame, plan.placements, shards));
  }
  // The stored length of rows is the total over all ranks.
  if (plan.forms.empty()) return {};
  for (const RowPlacement& placement : plan.placements) {
    const auto shard = static_cast<size_t>(placement.shard);
    plan.forms[shard].shape = shards[shard].global_shape;
  }
  return {};
}

// The handlers that take part in the commit.

namespace {

// Returns the handlers of this name with which rank 0 has listed values, or the
// registered handler if rank 0 has listed none with it.
std::vector<TypeHandlerPtr> FindHandlers(const PreparedSave& save,
                                         const std::string& typestr) {
  std::vector<TypeHandlerPtr> handlers;
  std::ranges::copy_if(save.listing.handlers, std::back_inserter(handlers),
                       [&](const TypeHandlerPtr& handler) {
                         return handler->typestr() == typestr;
                       });
  const HandlerTable::Entry* entry =
      save.listed.origin.handlers->FindTypestr(typestr);
  if (handlers.empty() && entry != nullptr) {
    handlers.push_back(entry->handler);
  }
  return handlers;
}

}  // namespace

Status FindFinalizers(const PreparedSave& save, StepInProgress& step) {
  const StoredValues& values = save.plan.saved.values;
  std::set<std::string> typestrs;
  for (size_t i = 0; i < values.typestr.size(); ++i) {
    const std::string& typestr = values.typestr[i];
    if (IsFormKey(values.key[i]) || !typestrs.insert(typestr).second) continue;
    std::vector<TypeHandlerPtr> handlers;
    const Status asked = CatchExceptions([&] {
      handlers = FindHandlers(save, typestr);
      std::ranges::copy_if(
          handlers, std::back_inserter(step.finalizers),
          [](const TypeHandlerPtr& one) { return one->HasFinalize(); });
      return absl::OkStatus();
    });
    if (!asked.ok()) {
      step.program_failed = true;
      return asked;
    }
    if (handlers.empty() && !IsStandardTypestr(typestr)) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "save \"%s\": another rank uses the handler \"%s\", which rank 0 "
          "does not have: register it on all ranks",
          step.target.path, typestr));
    }
  }
  return absl::OkStatus();
}

}  // namespace belay
