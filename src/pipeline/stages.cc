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
  // All ranks know that some argument differs. Find out which one.
  for (const CommonOption& argument : arguments) {
    BELAY_RETURN_IF_AGREED(AgreeSame(context,
                                     Cat(operation, ": ", argument.name),
                                     Fingerprint(argument.bytes)));
  }
  return same;
}

// --- Shared directory ---

namespace {

constexpr double kMaxSeconds = 10;
constexpr size_t kMaxShown = 8;

// Lists the hosts that do not see the file, each with its lowest rank. `all`
// has "y" or "n" and the host name of each rank.
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
  return deadline_seconds > 0 ? std::min(kMaxSeconds, deadline_seconds / 2)
                              : kMaxSeconds;
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
  using Counter = int64_t TransferCounters::*;
  constexpr Counter kSummed[] = {&TransferCounters::bytes,
                                 &TransferCounters::io_calls,
                                 &TransferCounters::delivered_bytes};
  constexpr Counter kLargest[] = {
      &TransferCounters::collective_io,   &TransferCounters::files,
      &TransferCounters::messages,        &TransferCounters::peak_memory_bytes,
      &TransferCounters::agreement_bytes, &TransferCounters::staged_bytes};
  std::vector<int64_t> sums;
  for (const Counter counter : kSummed) sums.push_back(mine.*counter);
  sums.insert(sums.end(), stripes.begin(), stripes.end());
  BELAY_RETURN_IF_AGREED(SumAll(context, sums));
  auto next = sums.begin();
  for (const Counter counter : kSummed) mine.*counter = *next++;
  if (!stripes.empty()) {
    mine.stripe_writers = *next++;
    mine.stripe_requests = *next++;
    mine.stripe_servers = sums.end() - next;
    for (; next != sums.end(); ++next) {
      mine.busiest_server_requests =
          std::max(mine.busiest_server_requests, *next);
    }
  }
  mine.messages = context.messages + 1;
  mine.agreement_bytes = context.agreement_bytes;
  std::vector<int64_t> largest;
  for (const Counter counter : kLargest) largest.push_back(mine.*counter);
  for (const StageTime& time : mine.stages) {
    largest.push_back(static_cast<int64_t>(time.seconds * 1e9));
  }
  BELAY_RETURN_IF_AGREED(MaxAll(context, largest));
  next = largest.begin();
  for (const Counter counter : kLargest) mine.*counter = *next++;
  for (StageTime& time : mine.stages) {
    time.seconds = static_cast<double>(*next++) * 1e-9;
  }
  return {};
}

int64_t PeakMemoryBytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1024;
}

}  // namespace belay
