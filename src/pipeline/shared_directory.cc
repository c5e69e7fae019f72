#include "pipeline/shared_directory.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/process/host_name.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "mpi/all_gather.h"

namespace belay {
namespace {

constexpr double kMostSeconds = 10;
constexpr size_t kMaxShown = 8;

// The hosts that see it not, with the lowest of their ranks each. `all` has of
// each rank whether it sees it, and its host.
std::string BlindHosts(const std::vector<std::string>& all) {
  std::map<std::string, size_t> lowest;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank][0] == 'n') lowest.emplace(all[rank].substr(1), rank);
  }
  std::vector<std::string> texts;
  for (const auto& [host, rank] : lowest) {
    texts.push_back(Cat("\"", host, "\" (rank ", rank, ")"));
  }
  const size_t more = texts.size() - std::min(texts.size(), kMaxShown);
  texts.resize(texts.size() - more);
  return absl::StrJoin(texts, ", ") +
         (more == 0 ? "" : Cat(" and ", more, " more"));
}

}  // namespace

double SharedDirectorySeconds(double deadline_seconds) {
  return deadline_seconds > 0 ? std::min(kMostSeconds, deadline_seconds / 2)
                              : kMostSeconds;
}

Status AgreeOnSharedDirectory(CommContext& context, const Status& mine,
                              bool sees, bool did_see,
                              const std::string& operation, double seconds) {
  std::vector<int64_t> all_see = {sees ? 1 : 0};
  BELAY_RETURN_IF_AGREED(MinAll(context, all_see, mine));
  if (all_see[0] == 1) return absl::OkStatus();
  BELAY_ASSIGN_OR_RETURN_AGREED(
      const std::vector<std::string> all,
      AllGather(context, Cat(sees ? "y" : "n", HostName())));
  const absl::StatusCode code = did_see ? absl::StatusCode::kUnavailable
                                        : absl::StatusCode::kFailedPrecondition;
  return Status(
      code,
      absl::StrFormat("%s: what rank 0 made on host \"%s\" was not seen within "
                      "%g s by %s; all ranks need the same path on a shared "
                      "file system",
                      operation, all[0].substr(1), seconds, BlindHosts(all)));
}

}  // namespace belay
