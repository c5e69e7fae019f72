#include "save/data_file_job.h"

#include <unistd.h>

namespace belay {
namespace {

// Whether more ranks of this node share a file than the node has cores.
bool IsCrowded(const PlannedSave& planned) {
  const int64_t cores = ::sysconf(_SC_NPROCESSORS_ONLN);
  return cores > 0 && planned.node_ranks > cores;
}

}  // namespace

WriteJob DataFileJob(const SaveFrame& frame, const std::vector<Shard>& shards,
                     const ReusablePlan& plan, const PlannedFile& file,
                     DatasetPart part) {
  const bool filtered = part == DatasetPart::kFiltered;
  return {.shards = shards,
          .writes = filtered ? file.filtered : file.writes,
          .path = frame.target.DataPath(file),
          .forms = plan.forms,
          .registers = {},
          .durable = frame.options.durable,
          .is_creator = file.is_creator,
          .is_syncer = plan.planned.is_syncer,
          .is_crowded = IsCrowded(plan.planned),
          .once_open = nullptr,
          .meanwhile = nullptr,
          .progress = nullptr,
          .rounds = file.rounds,
          .memory = frame.options.max_bytes_in_flight,
          .mean_run_bytes = plan.planned.mean_run_bytes,
          .hints = frame.options.mpi_io_hints,
          .striping = file.striping,
          .datasets = &file.datasets,
          .calls = &file.calls,
          .corners = &file.corners,
          .filtered = filtered};
}

}  // namespace belay
