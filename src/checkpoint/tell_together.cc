#include "checkpoint/tell_together.h"

#include <string>
#include <utility>

#include "base/status_macros.h"
#include "base/with_memory.h"

namespace belay {

StatusOr<Heard> TellTogether(Team& team, std::vector<Entries> lists,
                             Told& told) {
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
  const std::string answer = Answer(ask, reference, now, told);
  BELAY_ASSIGN_OR_RETURN_AGREED(const std::vector<std::string> answers,
                                Gather(team, answer));
  team.agreement_bytes += std::ssize(announced) + std::ssize(answer);
  if (team.is_root()) {
    team.agreement_bytes +=
        std::ssize(asks) * std::ssize(ask) + std::ssize(reference);
  }
  Heard heard;
  BELAY_RETURN_IF_AGREED(OnRoot(team, [&] {
    return WithMemory("what all ranks have", [&]() -> Status {
      BELAY_ASSIGN_OR_RETURN(heard,
                             Hear(announcements, asks, answers, now, told));
      return absl::OkStatus();
    });
  }));
  told.heard = heard.lists;
  told.mine = std::move(now.hashes);
  return heard;
}

StatusOr<ListedRanks> DescribeTogether(Team& team, const RankShards& mine,
                                       Told& told) {
  Description description = Describe(mine, team.rank());
  BELAY_ASSIGN_OR_RETURN_AGREED(
      const Heard heard,
      TellTogether(team,
                   {std::move(description.shared), std::move(description.own)},
                   told));
  ListedRanks listed;
  BELAY_RETURN_IF_AGREED(OnRoot(team, [&] {
    return WithMemory("what all ranks list", [&]() -> Status {
      BELAY_ASSIGN_OR_RETURN(listed, ListRanks(heard));
      return absl::OkStatus();
    });
  }));
  return listed;
}

}  // namespace belay
