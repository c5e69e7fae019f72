#include <algorithm>
#include <functional>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "checkpoint/save_run.h"
#include "store/index_file.h"
#include "store/transfer.h"
#include "store/verify.h"

namespace belay {
namespace {

WriteJob JobOf(SaveRun& run) {
  const PlannedSave& planned = run.cache.planned;
  return {.shards = run.shards,
          .writes = planned.writes,
          .path = run.DataPath(),
          .registers = run.registers,
          .durable = run.options.durable,
          .is_creator = planned.is_creator,
          .meanwhile = run.team.is_root() && !run.has_index
                           ? std::function([&run] { return PrepareIndex(run); })
                           : nullptr,
          .rounds = planned.rounds,
          .mean_run_bytes = planned.mean_run_bytes,
          .hints = run.options.mpi_io_hints,
          .datasets = &planned.datasets,
          .calls = &planned.calls};
}

// Writes with the ranks of one file. Collective over `team`.
Status WriteTogether(Team& team, SaveRun& run, const WriteJob& job,
                     MpiIoVerdict& verdict, WriteCounts& counts) {
  if (run.result.transfer == Transfer::kHdf5) {
    return WriteWithHdf5(team, job, verdict, counts);
  }
  return WriteCollectively(team, job, verdict, counts);
}

// Writes the file of a node with the ranks of that node. Collective over
// `comm`.
Status WriteWithNode(const Comm& comm, SaveRun& run, const WriteJob& job,
                     MpiIoVerdict& verdict, WriteCounts& counts) {
  Team team{.comm = comm,
            .deadline = Deadline(comm, run.options.deadline_seconds,
                                 absl::StrFormat("save \"%s\"", job.path)),
            .whole = &run.team.comm};
  team.deadline.Enter("write");
  const Status status = WriteTogether(team, run, job, verdict, counts);
  run.team.messages += team.messages;
  return status;
}

// All files at once; a rank without one has nothing to do. Collective.
Status WritePerFile(SaveRun& run, const WriteJob& job, MpiIoVerdict& verdict,
                    WriteCounts& counts) {
  const int32_t file = run.cache.planned.writes.file;
  StatusOr<Comm> comm = run.team.comm.Split(file);
  BELAY_RETURN_IF_AGREED(Agree(run.team, comm.status()));
  verdict.sound = true;
  if (file < 0) return Agree(run.team, absl::OkStatus());
  Status status = WriteWithNode(*comm, run, job, verdict, counts);
  status.Update(comm->Close());
  return Agree(run.team, status);
}

// Equal on all ranks: options and plan are.
Transfer ChooseTransfer(const SaveRun& run) {
  if (run.options.transfer != Transfer::kAuto) return run.options.transfer;
  return run.cache.planned.mean_run_bytes < kTwoPhaseRunBytes
             ? Transfer::kCollective
             : Transfer::kIndependent;
}

bool IsTogether(const SaveRun& run) {
  // A file of one rank needs no collective call.
  return run.result.transfer == Transfer::kHdf5 ||
         (run.result.transfer == Transfer::kCollective &&
          run.options.file_layout != FileLayout::kPerTask);
}

// Tries the transfer that was asked for; `done` says whether it was fit.
// Collective.
Status TryTogether(SaveRun& run, WriteCounts& counts, bool& done) {
  const WriteJob job = JobOf(run);
  MpiIoVerdict verdict;
  Status status;
  if (run.options.file_layout == FileLayout::kShared) {
    status = WriteTogether(run.team, run, job, verdict, counts);
  } else {
    status = WritePerFile(run, job, verdict, counts);
  }
  BELAY_RETURN_IF_AGREED(status);
  std::vector<int64_t> sound = {verdict.sound ? 1 : 0};
  BELAY_RETURN_IF_AGREED(MinAll(run.team, sound));
  done = sound[0] == 1;
  run.result.transfer_note = verdict.note;
  return absl::OkStatus();
}

}  // namespace

Status PrepareIndex(SaveRun& run) {
  PlanCache::Impl& cache = run.cache;
  run.has_index = true;
  if (run.reuse) return CreateIndexFromImage(run.IndexPath(), cache.index);
  BELAY_ASSIGN_OR_RETURN(cache.index,
                         FillIndex(std::move(run.index), cache.planned.saved));
  return absl::OkStatus();
}

Status WriteStation(SaveRun& run) {
  run.stations.Enter("write");
  const PlannedSave& planned = run.cache.planned;
  run.registers.assign(run.options.checksums ? planned.num_blocks : 0, 0);
  if (planned.num_files == 0) return absl::OkStatus();
  run.result.transfer = ChooseTransfer(run);
  WriteCounts counts;
  bool done = false;
  if (IsTogether(run)) {
    BELAY_RETURN_IF_AGREED(TryTogether(run, counts, done));
  }
  if (!done) {
    // Other nodes may have written already.
    std::fill(run.registers.begin(), run.registers.end(), 0);
    counts = {};
    run.result.transfer = Transfer::kIndependent;
    BELAY_RETURN_IF_AGREED(
        Agree(run.team, WriteIndependently(JobOf(run), counts)));
  }
  run.result.counters.bytes = counts.bytes;
  run.result.counters.io_calls = counts.io_calls;
  run.result.counters.collective_io = counts.collective_io;
  return absl::OkStatus();
}

Status VerifyStation(SaveRun& run) {
  run.stations.Enter("verify");
  bool has_holes = false;
  Status status;
  if (run.cache.planned.is_creator) {
    status = CheckWrittenFile(
        run.DataPath(), run.cache.skeleton.skeleton.file_bytes, has_holes);
  }
  std::vector<int64_t> flags = {has_holes ? 0 : 1};
  BELAY_RETURN_IF_AGREED(AgreeWithFlags(run.team, status, flags));
  // Fewer bytes allocated than written is a loss, or a file system that
  // compresses: reading back tells.
  if (run.options.read_back || flags[0] == 0) {
    BELAY_RETURN_IF_AGREED(Agree(run.team, ReadBack(JobOf(run))));
  }
  if (run.registers.empty()) return absl::OkStatus();
  return XorToRoot(run.team, run.registers);
}

}  // namespace belay
