#include "pipeline/tell_together.h"

#include <string>
#include <utility>

#include "base/status_macros.h"
#include "base/with_memory.h"

namespace belay {

StatusOr<Briefed> TellTogether(
    Team& team, std::vector<Entries> lists, Told& told,
    absl::FunctionRef<StatusOr<Briefing>(const Heard&)> answer) {
  Telling now = TellingOf(std::move(lists));
  const std::string announced = Announce(now, told);
  BELAY_ASSIGN_OR_RETURN_AGREED(const std::vector<std::string> announcements,
                                Gather(team, announced));
  const std::vector<std::string> asks = AskFor(announcements, told);
  BELAY_ASSIGN_OR_RETURN_AGREED(const std::string ask, Scatter(team, asks));
  std::string reference;
  if (NeedsReference(ask)) {
    if (team.is_root()) reference = ReferenceOf(now);
    BELAY_RETURN_IF_AGREED(Broadcast(team, reference));
  }
  const std::string mine = Answer(ask, reference, now, told);
  BELAY_ASSIGN_OR_RETURN_AGREED(const std::vector<std::string> answers,
                                Gather(team, mine));
  team.agreement_bytes += std::ssize(announced) + std::ssize(mine);
  if (team.is_root()) {
    team.agreement_bytes +=
        std::ssize(asks) * std::ssize(ask) + std::ssize(reference);
  }
  Heard heard;
  const auto listen = [&]() -> StatusOr<Briefing> {
    BELAY_ASSIGN_OR_RETURN(heard,
                           Hear(announcements, asks, answers, now, told));
    return answer(heard);
  };
  BELAY_ASSIGN_OR_RETURN_AGREED(Briefed briefed, FromRootInParts(team, [&] {
                                  return WithMemory("what all ranks have",
                                                    listen);
                                }));
  told.heard = std::move(heard.lists);
  told.mine = std::move(now.hashes);
  return briefed;
}

StatusOr<Briefed> DescribeTogether(
    Team& team, const RankShards& mine, Told& told,
    absl::FunctionRef<StatusOr<Briefing>(const ListedRanks&)> answer) {
  Description description = Describe(mine, team.rank());
  return TellTogether(
      team, {std::move(description.shared), std::move(description.own)}, told,
      [&](const Heard& heard) -> StatusOr<Briefing> {
        BELAY_ASSIGN_OR_RETURN(const ListedRanks listed, ListRanks(heard));
        return answer(listed);
      });
}

}  // namespace belay
