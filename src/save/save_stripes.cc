#include <algorithm>

#include "io/files/striping.h"
#include "save/save_run.h"

namespace belay {
namespace {

// Writes of MPI-IO go to stripes that only MPI-IO knows.
bool CountsStripes(const SaveRun& run) {
  return run.cache.planned.stripes.striping.stripe_bytes > 0 &&
         (run.result.transfer == Transfer::kIndependent ||
          run.result.transfer == Transfer::kTwoPhase);
}

// What this rank did: as many numbers on all ranks, which have all files.
std::vector<int64_t> StripeNumbers(const SaveRun& run) {
  int32_t servers = 0;
  for (const PlannedFile& file : run.cache.planned.files) {
    servers = std::max(servers, file.striping.servers);
  }
  std::vector<int64_t> numbers = run.stripes.server_requests;
  numbers.resize(servers);
  numbers.insert(numbers.begin(), {run.stripes.stripes, run.stripes.requests});
  return numbers;
}

}  // namespace

std::vector<Striping> StripingsOfMine(const SaveRun& run) {
  std::vector<Striping> stripings;
  for (const PlannedFile& file : run.cache.planned.files) {
    if (!file.is_creator) continue;
    stripings.push_back(
        run.options.file_layout == FileLayout::kShared
            ? StripingOf(run.DataPath(file), run.options.mpi_io_hints)
            : Striping{});
  }
  return stripings;
}

Status CombineSaveCounters(SaveRun& run) {
  TransferCounters& counters = run.result.counters;
  if (!CountsStripes(run)) return CombineCounters(run.team, counters);
  counters.stripes = run.cache.planned.stripes.by_nodes.stripes;
  return CombineCounters(run.team, counters, StripeNumbers(run));
}

}  // namespace belay
