#include "checkpoint/describe_together.h"

#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "base/with_memory.h"

namespace belay {

StatusOr<ListedRanks> DescribeTogether(Team& team, const RankShards& mine,
                                       Told& told) {
  Telling now = TellingOf(mine, team.rank());
  const std::string announced = Announce(now, told);
  BELAY_ASSIGN_OR_RETURN_AGREED(const std::vector<std::string> announcements,
                                Gather(team, announced));
  const std::vector<std::string> asks = AskFor(announcements, told);
  BELAY_ASSIGN_OR_RETURN_AGREED(const std::string ask, Scatter(team, asks));
  const std::string answer = Answer(ask, now, told);
  BELAY_ASSIGN_OR_RETURN_AGREED(const std::vector<std::string> answers,
                                Gather(team, answer));
  team.agreement_bytes += std::ssize(announced) + std::ssize(answer);
  for (const std::string& part : asks) team.agreement_bytes += std::ssize(part);
  Heard heard;
  BELAY_RETURN_IF_AGREED(OnRoot(team, [&] {
    return WithMemory("what all ranks list", [&]() -> Status {
      BELAY_ASSIGN_OR_RETURN(heard, Hear(announcements, asks, answers, told));
      return absl::OkStatus();
    });
  }));
  told.heard = std::move(heard.lists);
  told.mine = std::move(now.hashes);
  return std::move(heard.listed);
}

}  // namespace belay
