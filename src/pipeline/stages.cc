#include "pipeline/stages.h"

#include <sys/resource.h>

#include <map>

#include "absl/strings/str_join.h"
#include "core/process.h"

namespace belay {

Agreed<> AgreeOnArguments(CommContext& context, std::string_view operation,
                          const std::vector<CommonOption>& arguments) {
  WireWriter all;
  for (const CommonOption& argument : arguments) all.PutText(argument.bytes);
  const Agreed<> same = AgreeSame(context, Cat(operation, ": an argument"),
                                  Fingerprint(all.bytes()));
  if (!absl::IsInvalidArgument(same.status())) return same;
  // All ranks know that some argument differs. Finds out which.
  for (const CommonOption& argument : arguments) {
    BELAY_RETURN_IF_AGREED(AgreeSame(context,
                                     Cat(operation, ": ", argument.name),
                                     Fingerprint(argument.bytes)));
  }
  return same;
}

// --- Shared directory ---

namespace {

constexpr double kMostSeconds = 10;
constexpr size_t kMaxShown = 8;

// Lists the hosts that do not see it, each with its lowest rank. `all` has for
// each rank "y" or "n" and its host.
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

Agreed<> AgreeOnSharedDirectory(CommContext& context, const Status& mine,
                                bool sees, bool did_see,
                                const std::string& operation, double seconds) {
  std::vector<int64_t> all_see = {sees ? 1 : 0};
  BELAY_RETURN_IF_AGREED(MinAll(context, all_see, mine));
  if (all_see[0] == 1) return {};
  BELAY_ASSIGN_OR_RETURN_AGREED(
      const std::vector<std::string> all,
      AllGather(context, Cat(sees ? "y" : "n", HostName())));
  const absl::StatusCode code = did_see ? absl::StatusCode::kUnavailable
                                        : absl::StatusCode::kFailedPrecondition;
  return SameOnAllRanks(Status(
      code,
      absl::StrFormat("%s: what rank 0 made on host \"%s\" was not seen within "
                      "%g s by %s; all ranks need the same path on a shared "
                      "file system",
                      operation, all[0].substr(1), seconds, BlindHosts(all))));
}

// --- Stages ---

namespace {

// Takes the sums of CombineCounters' `stripes`.
void TakeStripes(std::span<const int64_t> sums, TransferCounters& counters) {
  counters.stripe_writers = sums[0];
  counters.stripe_requests = sums[1];
  const auto servers = sums.subspan(2);
  counters.stripe_servers = std::ssize(servers);
  for (const int64_t requests : servers) {
    counters.busiest_server_requests =
        std::max(counters.busiest_server_requests, requests);
  }
}

}  // namespace

void Stages::Enter(std::string_view name, std::span<const std::string> work) {
  const auto now = std::chrono::steady_clock::now();
  if (times_.size() > num_before_) {
    times_.back().seconds = std::chrono::duration<double>(now - since_).count();
  }
  times_.push_back({std::string(name), 0});
  since_ = now;
  context_.deadline.Enter(name, work);
}

std::vector<StageTime> Stages::Finish() {
  Enter("clean up");
  times_.pop_back();
  return std::move(times_);
}

Agreed<> CheckComm(const Comm& comm, std::string_view operation,
                   const std::string& dir) {
  if (comm.raw() != MPI_COMM_NULL) return {};
  return SameOnAllRanks(absl::FailedPreconditionError(
      absl::StrFormat("%s \"%s\": the communicator is closed or was moved from",
                      operation, dir)));
}

Agreed<std::vector<bool>> AgreeOnStructure(CommContext& context,
                                           const Status& mine,
                                           std::span<const uint64_t> numbers,
                                           std::span<uint64_t> sums) {
  // Every rank adds its number, and rank 0 subtracts its own for each rank: the
  // result is the sum of the differences from rank 0's number.
  const uint64_t weight =
      context.is_root() ? 1 - static_cast<uint64_t>(context.size()) : 1;
  std::vector<int64_t> ballot;
  for (const uint64_t number : numbers) {
    ballot.push_back(static_cast<int64_t>(number * weight));
  }
  for (const uint64_t sum : sums) ballot.push_back(static_cast<int64_t>(sum));
  context.agreement_bytes += std::ssize(ballot) * 8 + 8;  // and the Status
  BELAY_RETURN_IF_AGREED(SumAll(context, ballot, mine));
  std::vector<bool> same;
  for (size_t i = 0; i < numbers.size(); ++i) same.push_back(ballot[i] == 0);
  for (size_t i = 0; i < sums.size(); ++i) {
    sums[i] = static_cast<uint64_t>(ballot[numbers.size() + i]);
  }
  return same;
}

Agreed<> CombineCounters(CommContext& context, TransferCounters& mine,
                         std::span<const int64_t> stripes) {
  std::vector<int64_t> sums = {mine.bytes, mine.io_calls, mine.delivered_bytes};
  sums.insert(sums.end(), stripes.begin(), stripes.end());
  BELAY_RETURN_IF_AGREED(SumAll(context, sums));
  mine.bytes = sums[0];
  mine.io_calls = sums[1];
  mine.delivered_bytes = sums[2];
  if (!stripes.empty()) TakeStripes(std::span(sums).subspan(3), mine);
  std::vector<int64_t> largest = {
      mine.collective_io,      mine.files,
      context.messages + 1,    mine.peak_memory_bytes,
      context.agreement_bytes, mine.staged_bytes};
  const size_t num_counters = largest.size();
  for (const StageTime& time : mine.stages) {
    largest.push_back(static_cast<int64_t>(time.seconds * 1e9));
  }
  BELAY_RETURN_IF_AGREED(MaxAll(context, largest));
  mine.collective_io = largest[0];
  mine.files = largest[1];
  mine.messages = largest[2];
  mine.peak_memory_bytes = largest[3];
  mine.agreement_bytes = largest[4];
  mine.staged_bytes = largest[5];
  for (size_t i = 0; i < mine.stages.size(); ++i) {
    mine.stages[i].seconds =
        static_cast<double>(largest[num_counters + i]) * 1e-9;
  }
  return {};
}

int64_t PeakMemoryBytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1024;
}

}  // namespace belay
