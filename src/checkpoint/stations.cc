#include "checkpoint/stations.h"

#include <sys/resource.h>

#include <algorithm>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"

namespace belay {

void Stations::Enter(std::string_view name, std::span<const std::string> work) {
  const auto now = std::chrono::steady_clock::now();
  if (times_.size() > num_before_) {
    times_.back().seconds = std::chrono::duration<double>(now - since_).count();
  }
  times_.push_back({std::string(name), 0});
  since_ = now;
  team_.deadline.Enter(name, work);
}

std::vector<StationTime> Stations::Finish() {
  Enter("clean up");
  times_.pop_back();
  return std::move(times_);
}

Status CheckComm(const Comm& comm, std::string_view operation,
                 const std::string& dir) {
  if (comm.raw() != MPI_COMM_NULL) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrFormat("%s \"%s\": the communicator is closed or was moved from",
                      operation, dir));
}

StatusOr<std::vector<bool>> AgreeOnStructure(
    Team& team, const Status& mine, std::span<const uint64_t> numbers) {
  // A value and its complement: the minimum of both is found together, and
  // they fit each other only if all ranks passed the same.
  std::vector<int64_t> flags;
  for (const uint64_t number : numbers) {
    flags.push_back(static_cast<int64_t>(number));
    flags.push_back(~flags.back());
  }
  team.agreement_bytes += std::ssize(flags) * 8 + 8;  // and the Status
  BELAY_RETURN_IF_AGREED(MinAll(team, flags, mine));
  std::vector<bool> same;
  for (size_t i = 0; i < flags.size(); i += 2) {
    same.push_back(flags[i] == ~flags[i + 1]);
  }
  return same;
}

Status CombineCounters(Team& team, TransferCounters& mine) {
  std::vector<int64_t> sums = {mine.bytes, mine.io_calls, mine.delivered_bytes};
  BELAY_RETURN_IF_AGREED(SumAll(team, sums));
  mine.bytes = sums[0];
  mine.io_calls = sums[1];
  mine.delivered_bytes = sums[2];
  std::vector<int64_t> largest = {mine.collective_io,   mine.files,
                                  team.messages + 1,    mine.peak_memory_bytes,
                                  team.agreement_bytes, mine.staged_bytes};
  const size_t num_counters = largest.size();
  for (const StationTime& time : mine.stations) {
    largest.push_back(static_cast<int64_t>(time.seconds * 1e9));
  }
  BELAY_RETURN_IF_AGREED(MaxAll(team, largest));
  mine.collective_io = largest[0];
  mine.files = largest[1];
  mine.messages = largest[2];
  mine.peak_memory_bytes = largest[3];
  mine.agreement_bytes = largest[4];
  mine.staged_bytes = largest[5];
  for (size_t i = 0; i < mine.stations.size(); ++i) {
    mine.stations[i].seconds =
        static_cast<double>(largest[num_counters + i]) * 1e-9;
  }
  return absl::OkStatus();
}

int64_t PeakMemoryBytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1024;
}

}  // namespace belay
