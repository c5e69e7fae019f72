#include "race.h"

#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <thread>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace belay::bench {
namespace {

// The measurements of one run.
struct Turn {
  double seconds = 0;
  double planning_bytes = 0;
};

// Per contender and repetition.
using Turns = std::vector<std::vector<Turn>>;

StatusOr<double> TimeOnce(const Context& context, const Contender& contender) {
  MPI_Comm comm = context.comm->raw();
  MPI_Barrier(comm);
  const double start = MPI_Wtime();
  Status status = contender.run();
  WaitForAll(comm);
  double seconds = MPI_Wtime() - start;
  MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, comm);
  status = AllOk(*context.comm, status);
  if (!status.ok()) return status;
  return seconds;
}

Status CallAll(const Context& context,
               const std::function<Status()>& function) {
  if (!function) return absl::OkStatus();
  return AllOk(*context.comm, function());
}

StatusOr<Turn> OneTurn(const Context& context, const Contender& contender,
                       bool first) {
  const Status prepared = CallAll(context, contender.prepare);
  if (!prepared.ok()) return prepared;
  StatusOr<double> seconds = TimeOnce(context, contender);
  if (!seconds.ok()) return seconds.status();
  if (first) {
    Status status = CallAll(context, contender.check);
    if (!status.ok()) return status;
  }
  Status status = CallAll(context, contender.clean);
  if (!status.ok()) return status;
  Turn turn{.seconds = *seconds};
  if (contender.planning_bytes) {
    turn.planning_bytes = static_cast<double>(contender.planning_bytes());
  }
  return turn;
}

StatusOr<Turns> TakeTurns(const Context& context,
                          const std::vector<Contender>& contenders) {
  Turns turns(contenders.size());
  for (int rep = 0; rep <= context.reps; ++rep) {
    for (size_t turn = 0; turn < contenders.size(); ++turn) {
      const size_t i = (turn + rep) % contenders.size();
      StatusOr<Turn> measured = OneTurn(context, contenders[i], rep == 0);
      if (!measured.ok()) {
        return Status(measured.status().code(),
                      absl::StrCat(contenders[i].name, ": ",
                                   measured.status().message()));
      }
      if (rep > 0) turns[i].push_back(*measured);
    }
  }
  return turns;
}

std::vector<Contender> KeepNeeded(const std::vector<Comparison>& comparisons,
                                  std::vector<Contender> contenders) {
  std::set<std::string> needed;
  for (const Comparison& comparison : comparisons) {
    needed.insert(comparison.contender);
    needed.insert(comparison.baseline);
  }
  std::erase_if(contenders, [&](const Contender& contender) {
    return !needed.contains(contender.name);
  });
  return contenders;
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle]
                                : (values[middle - 1] + values[middle]) / 2;
}

StatusOr<size_t> IndexOf(const std::vector<Contender>& contenders,
                         const std::string& name) {
  for (size_t i = 0; i < contenders.size(); ++i) {
    if (contenders[i].name == name) return i;
  }
  return absl::InternalError(absl::StrCat("no contender \"", name, "\""));
}

std::vector<double> Seconds(const std::vector<Turn>& turns) {
  std::vector<double> seconds;
  for (const Turn& turn : turns) seconds.push_back(turn.seconds);
  return seconds;
}

std::vector<double> PlanningBytes(const std::vector<Turn>& turns) {
  std::vector<double> bytes;
  for (const Turn& turn : turns) bytes.push_back(turn.planning_bytes);
  return bytes;
}

// Returns the ratio of two lists of values, with the text of `shown` for their
// medians.
Ratio RatioOf(const std::vector<double>& values,
              const std::vector<double>& base,
              absl::FunctionRef<std::string(double, double)> shown) {
  std::vector<double> ratios;
  for (size_t rep = 0; rep < base.size(); ++rep) {
    ratios.push_back(values[rep] / base[rep]);
  }
  const auto [min, max] = std::minmax_element(ratios.begin(), ratios.end());
  return {.median = Median(ratios),
          .min = *min,
          .max = *max,
          .detail = shown(Median(values), Median(base))};
}

// Returns the ratio of times to those of the baseline or to a limit.
StatusOr<Ratio> CompareTimes(const Comparison& comparison,
                             const std::vector<Contender>& contenders,
                             const Turns& turns, size_t contender) {
  const std::vector<double> seconds = Seconds(turns[contender]);
  std::vector<double> base(seconds.size(), comparison.limit_ms * 1e-3);
  std::string base_name = "limit";
  if (!comparison.baseline.empty()) {
    StatusOr<size_t> b = IndexOf(contenders, comparison.baseline);
    if (!b.ok()) return b.status();
    base = Seconds(turns[*b]);
    base_name = comparison.baseline;
  }
  return RatioOf(seconds, base, [&](double mine, double its) {
    return absl::StrFormat("%.1f ms, %s %.1f ms", 1e3 * mine, base_name,
                           1e3 * its);
  });
}

// Returns the ratio of the bytes sent to a limit.
Ratio CompareBytes(const Comparison& comparison,
                   const std::vector<Turn>& turns) {
  const std::vector<double> limits(turns.size(), comparison.limit_bytes);
  return RatioOf(PlanningBytes(turns), limits, [](double mine, double limit) {
    return absl::StrFormat("%.0f bytes per rank, limit %.0f", mine, limit);
  });
}

StatusOr<Ratio> Compare(const Comparison& comparison,
                        const std::vector<Contender>& contenders,
                        const Turns& turns) {
  StatusOr<size_t> a = IndexOf(contenders, comparison.contender);
  if (!a.ok()) return a.status();
  StatusOr<Ratio> ratio = comparison.limit_bytes > 0
                              ? CompareBytes(comparison, turns[*a])
                              : CompareTimes(comparison, contenders, turns, *a);
  if (ratio.ok() && contenders[*a].detail) {
    absl::StrAppend(&ratio->detail, "; ", contenders[*a].detail());
  }
  return ratio;
}

}  // namespace

void WaitForAll(MPI_Comm comm) {
  constexpr double kPollSeconds = 2e-4;
  constexpr double kPartOfWait = 0.01;  // precision of the time
  constexpr double kLongestNap = 1e-3;
  MPI_Request request = MPI_REQUEST_NULL;
  int error = MPI_Ibarrier(comm, &request);
  const double start = MPI_Wtime();
  for (int done = 0; done == 0 && error == MPI_SUCCESS;) {
    error = MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    const double waited = MPI_Wtime() - start;
    if (done == 0 && waited > kPollSeconds) {
      std::this_thread::sleep_for(std::chrono::duration<double>(
          std::min(kPartOfWait * waited, kLongestNap)));
    }
  }
}

Status AllOk(const Comm& comm, const Status& status) {
  int ok = status.ok() ? 1 : 0;
  MPI_Allreduce(MPI_IN_PLACE, &ok, 1, MPI_INT, MPI_MIN, comm.raw());
  if (!status.ok() || ok == 1) return status;
  return absl::InternalError("another rank failed");
}

StatusOr<std::vector<Ratio>> RunRace(const Context& context,
                                     const Medium& medium,
                                     const Workload& workload) {
  StatusOr<std::vector<Contender>> made = workload.make(context, medium);
  Status status = AllOk(*context.comm, made.status());
  if (!status.ok()) return status;
  const std::vector<Contender> contenders =
      KeepNeeded(workload.comparisons, *std::move(made));
  StatusOr<Turns> turns = TakeTurns(context, contenders);
  if (!turns.ok()) return turns.status();
  std::vector<Ratio> ratios;
  for (const Comparison& comparison : workload.comparisons) {
    StatusOr<Ratio> ratio = Compare(comparison, contenders, *turns);
    if (!ratio.ok()) return ratio.status();
    ratios.push_back(*std::move(ratio));
  }
  return ratios;
}

}  // namespace belay::bench
