#include "pipeline/gather_lists.h"

#include <string>
#include <utility>

#include "base/catch_bad_alloc.h"
#include "base/status_macros.h"

namespace belay {

StatusOr<RootMessage> GatherLists(
    CommContext& context, std::vector<Entries> lists, SentLists& sent_lists,
    absl::FunctionRef<StatusOr<RootMessages>(const Heard&)> answer) {
  ListsToSend now = ListsToSendOf(std::move(lists));
  const std::string announced = Announce(now, sent_lists);
  BELAY_ASSIGN_OR_RETURN_AGREED(std::vector<std::string> announcements,
                                Gather(context, announced));
  const std::vector<std::string> asks = AskFor(announcements, sent_lists);
  BELAY_ASSIGN_OR_RETURN_AGREED(const std::string ask, Scatter(context, asks));
  std::string reference;
  if (NeedsReference(ask)) {
    if (context.is_root()) reference = ReferenceOf(now);
    BELAY_RETURN_IF_AGREED(Broadcast(context, reference));
  }
  std::string mine = Answer(ask, reference, now, sent_lists);
  BELAY_ASSIGN_OR_RETURN_AGREED(std::vector<std::string> answers,
                                Gather(context, mine));
  context.agreement_bytes += std::ssize(announced) + std::ssize(mine);
  if (context.is_root()) {
    context.agreement_bytes +=
        std::ssize(asks) * std::ssize(ask) + std::ssize(reference);
  }
  Heard heard;
  const auto listen = [&]() -> StatusOr<RootMessages> {
    BELAY_ASSIGN_OR_RETURN(heard,
                           Hear(announcements, asks, answers, now, sent_lists));
    // An answer takes memory of its own for each of very many shards.
    announcements.clear();
    answers.clear();
    now.lists.clear();
    return answer(heard);
  };
  std::exchange(mine, std::string());
  BELAY_ASSIGN_OR_RETURN_AGREED(
      RootMessage message, FromRootInParts(context, [&] {
        return CatchBadAlloc("what all ranks have", listen);
      }));
  sent_lists.heard = std::move(heard.lists);
  sent_lists.mine = std::move(now.hashes);
  return message;
}

StatusOr<RootMessage> GatherDescriptions(
    CommContext& context, RankShards mine, SentLists& sent_lists,
    absl::FunctionRef<StatusOr<RootMessages>(ListedRanks)> answer) {
  Description description = Describe(mine, context.rank(), context.size());
  mine = {};  // there may be very many
  return GatherLists(
      context, {std::move(description.shared), std::move(description.own)},
      sent_lists, [&](const Heard& heard) -> StatusOr<RootMessages> {
        BELAY_ASSIGN_OR_RETURN(ListedRanks listed, ListRanks(heard));
        return answer(std::move(listed));
      });
}

}  // namespace belay
