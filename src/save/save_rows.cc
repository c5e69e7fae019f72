// The part of a save in which ranks learn where their rows stand.
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

Agreed<> PlaceRowsTogether(const SaveFrame& frame,
                           const std::vector<Shard>& shards, ReusablePlan& plan,
                           std::vector<KeyRows>& keys) {
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
  plan.placements = std::move(placements.shards);
  plan.any_ids = placements.any_ids;
  return {};
}

namespace {

// Lets shards with ids be blocks of consecutive ones.
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

// The number of ids on all ranks that are less than `end`, or -1. Collective.
int64_t CountBelow(CommContext& context, const std::vector<int64_t>& ids,
                   int64_t end) {
  std::vector<int64_t> count = {std::lower_bound(ids.begin(), ids.end(), end) -
                                std::lower_bound(ids.begin(), ids.end(), 0)};
  return SumAll(context, count).ok() ? count[0] : -1;
}

// The least id of a key that no rank has, if each of the others is there once.
// Collective.
std::optional<int64_t> FindMissing(CommContext& context,
                                   const SortedIds& sorted, int64_t total) {
  int64_t begin = 0, end = total;  // all before `begin` are there
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
  const bool is_there =
      begin >= total || CountBelow(context, sorted.ids, begin + 1) !=
                            CountBelow(context, sorted.ids, begin);
  return is_there ? std::nullopt : std::optional<int64_t>(begin);
}

// Adds to a failure that all ranks know which id is missing, if another one is
// out of range for that reason. Collective; agreed.
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
    const SaveFrame& frame, const std::vector<RowPlacement>& placements,
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

Agreed<std::vector<IdBlock>> TakePlaces(const SaveFrame& frame,
                                        ReusablePlan& plan,
                                        std::vector<Shard>& shards) {
  PlaceShards(plan.placements, shards);
  std::vector<IdBlock> blocks;
  if (plan.any_ids) {
    BELAY_ASSIGN_OR_RETURN_AGREED(blocks,
                                  SortById(frame, plan.placements, shards));
  }
  // What is stored of them is as long as that of all ranks.
  for (const RowPlacement& placement : plan.placements) {
    const auto shard = static_cast<size_t>(placement.shard);
    if (plan.forms.empty()) break;
    plan.forms[shard].shape = shards[shard].global_shape;
  }
  return blocks;
}

// The handlers that have a part in the end of a save.

namespace {

// The handlers of that name with which rank 0 has listed values or, if it has
// listed none, that of the registry.
std::vector<TypeHandlerPtr> HandlersNamed(const ListedSave& listed,
                                          const std::string& typestr) {
  std::vector<TypeHandlerPtr> handlers;
  for (const TypeHandlerPtr& handler : listed.listing.handlers) {
    if (handler->typestr() == typestr) handlers.push_back(handler);
  }
  const HandlerTable::Entry* entry =
      listed.origin.handlers->FindTypestr(typestr);
  if (handlers.empty() && entry != nullptr) {
    handlers.push_back(entry->handler);
  }
  return handlers;
}

}  // namespace

StatusOr<std::vector<TypeHandlerPtr>> FindFinalizers(const SaveTarget& target,
                                                     const ListedSave& listed,
                                                     const StoredValues& values,
                                                     StepInProgress& step) {
  std::vector<TypeHandlerPtr> finalizers;
  std::set<std::string> typestrs;
  for (size_t i = 0; i < values.typestr.size(); ++i) {
    const std::string& typestr = values.typestr[i];
    if (IsFormKey(values.key[i]) || !typestrs.insert(typestr).second) continue;
    std::vector<TypeHandlerPtr> handlers;
    const Status asked = CatchExceptions([&] {
      handlers = HandlersNamed(listed, typestr);
      std::ranges::copy_if(
          handlers, std::back_inserter(finalizers),
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
          target.path, typestr));
    }
  }
  return finalizers;
}

}  // namespace belay
