#include "race.h"

#include <mpi.h>

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace belay::bench {
namespace {

// Seconds per contender and repetition.
using Times = std::vector<std::vector<double>>;

StatusOr<double> TimeOnce(const Context& context, const Contender& contender) {
  MPI_Comm comm = context.comm->raw();
  MPI_Barrier(comm);
  const double start = MPI_Wtime();
  Status status = contender.run();
  MPI_Barrier(comm);
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

StatusOr<double> OneTurn(const Context& context, const Contender& contender,
                         bool first) {
  StatusOr<double> seconds = TimeOnce(context, contender);
  if (!seconds.ok()) return seconds;
  if (first) {
    Status status = CallAll(context, contender.check);
    if (!status.ok()) return status;
  }
  Status status = CallAll(context, contender.clean);
  if (!status.ok()) return status;
  return seconds;
}

StatusOr<Times> TakeTurns(const Context& context,
                          const std::vector<Contender>& contenders) {
  Times times(contenders.size());
  for (int rep = 0; rep <= context.reps; ++rep) {
    for (size_t turn = 0; turn < contenders.size(); ++turn) {
      const size_t i = (turn + rep) % contenders.size();
      StatusOr<double> seconds = OneTurn(context, contenders[i], rep == 0);
      if (!seconds.ok()) {
        return Status(
            seconds.status().code(),
            absl::StrCat(contenders[i].name, ": ", seconds.status().message()));
      }
      if (rep > 0) times[i].push_back(*seconds);
    }
  }
  return times;
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

StatusOr<Ratio> Compare(const Comparison& comparison,
                        const std::vector<Contender>& contenders,
                        const Times& times) {
  StatusOr<size_t> a = IndexOf(contenders, comparison.contender);
  if (!a.ok()) return a.status();
  std::vector<double> base(times[*a].size(), comparison.limit_ms * 1e-3);
  std::string base_name = "limit";
  if (!comparison.baseline.empty()) {
    StatusOr<size_t> b = IndexOf(contenders, comparison.baseline);
    if (!b.ok()) return b.status();
    base = times[*b];
    base_name = comparison.baseline;
  }
  std::vector<double> ratios;
  for (size_t rep = 0; rep < base.size(); ++rep) {
    ratios.push_back(times[*a][rep] / base[rep]);
  }
  const auto [min, max] = std::minmax_element(ratios.begin(), ratios.end());
  Ratio ratio{.median = Median(ratios), .min = *min, .max = *max};
  ratio.detail = absl::StrFormat("%.1f ms, %s %.1f ms", 1e3 * Median(times[*a]),
                                 base_name, 1e3 * Median(base));
  if (contenders[*a].detail) {
    absl::StrAppend(&ratio.detail, "; ", contenders[*a].detail());
  }
  return ratio;
}

}  // namespace

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
  StatusOr<Times> times = TakeTurns(context, contenders);
  if (!times.ok()) return times.status();
  std::vector<Ratio> ratios;
  for (const Comparison& comparison : workload.comparisons) {
    StatusOr<Ratio> ratio = Compare(comparison, contenders, *times);
    if (!ratio.ok()) return ratio.status();
    ratios.push_back(*std::move(ratio));
  }
  return ratios;
}

}  // namespace belay::bench
