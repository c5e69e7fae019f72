#include <unistd.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "io/files/posix_file.h"
#include "io/index/index_file.h"
#include "io/index/verify.h"
#include "io/transfer/transfer.h"
#include "save/save_run.h"
#include "save/transfer_choice.h"

namespace belay {
namespace {

// Whether rank 0 can fill its index now, and has not yet: how long files with
// filters are shows when they are written.
bool KnowsIndex(const SaveRun& run) {
  return !run.has_index && !run.cache.planned.has_filters;
}

// Which datasets of a file: those with filters are written apart, when the
// others are there.
enum class Part : uint8_t { kPlain, kFiltered };

// Whether more ranks of this node share a file than the node has cores.
bool IsCrowded(const SaveRun& run) {
  const int64_t cores = ::sysconf(_SC_NPROCESSORS_ONLN);
  return cores > 0 && run.cache.planned.node_ranks > cores;
}

WriteJob JobOf(SaveRun& run, const PlannedFile& file, Part part) {
  const bool filtered = part == Part::kFiltered;
  return {.shards = run.shards,
          .writes = filtered ? file.filtered : file.writes,
          .path = run.DataPath(file),
          .forms = run.cache.forms,
          .registers = run.registers,
          .durable = run.options.durable,
          .is_creator = file.is_creator,
          .is_syncer = run.cache.planned.is_syncer,
          .is_crowded = IsCrowded(run),
          .meanwhile = run.team.is_root() && KnowsIndex(run)
                           ? std::function([&run] { return PrepareIndex(run); })
                           : nullptr,
          .progress = run.progress ? std::function([&run](int64_t bytes) {
            run.progress_status.Update(run.progress(bytes));
          })
                                   : nullptr,
          .rounds = file.rounds,
          .memory = run.options.max_bytes_in_flight,
          .mean_run_bytes = run.cache.planned.mean_run_bytes,
          .hints = run.options.mpi_io_hints,
          .striping = file.striping,
          .datasets = &file.datasets,
          .calls = &file.calls,
          .corners = &file.corners,
          .filtered = filtered};
}

Transfer TransferOf(const SaveRun& run, Part part) {
  return part == Part::kFiltered ? Transfer::kHdf5 : run.result.transfer;
}

// Writes a file by one of the transfers that need all ranks of its team.
// Collective.
Status WriteOne(Transfer transfer, Team& team, const WriteJob& job,
                MpiIoVerdict& verdict, WriteCounts& counts) {
  if (transfer == Transfer::kTwoPhase) {
    return WriteInTwoPhases(team, job, counts);
  }
  if (transfer == Transfer::kHdf5) {
    return WriteWithHdf5(team, job, verdict, counts);
  }
  return WriteCollectively(team, job, verdict, counts);
}

// Writes the files of a team one after the other; all its ranks take part in
// each. Collective.
Status WriteTogether(Team& team, SaveRun& run, Part part, MpiIoVerdict& verdict,
                     WriteCounts& counts) {
  verdict.sound = true;
  for (const PlannedFile& file : run.cache.planned.files) {
    if (part == Part::kFiltered && !file.HasFilters()) continue;
    const WriteJob job = JobOf(run, file, part);
    BELAY_RETURN_IF_AGREED(
        WriteOne(TransferOf(run, part), team, job, verdict, counts));
    if (!verdict.sound) break;
  }
  return absl::OkStatus();
}

// Writes the files of a team that is a part of all ranks, those of `comm`.
// Collective.
Status WriteWithTeam(const Comm& comm, SaveRun& run, Part part,
                     MpiIoVerdict& verdict, WriteCounts& counts) {
  const std::string path = run.DataPath(run.cache.planned.files[0]);
  Team team{.comm = comm,
            .deadline = Deadline(comm, run.options.deadline_seconds,
                                 absl::StrFormat("save \"%s\"", path)),
            .whole = &run.team.comm};
  team.deadline.Enter("write");
  const Status status = WriteTogether(team, run, part, verdict, counts);
  run.team.messages += team.messages;
  return status;
}

// All teams at once; a rank without one has nothing to do. Collective.
Status WritePerTeam(SaveRun& run, Part part, MpiIoVerdict& verdict,
                    WriteCounts& counts) {
  const int32_t number = run.cache.planned.team;
  StatusOr<Comm> comm = run.team.comm.Split(number);
  BELAY_RETURN_IF_AGREED(Agree(run.team, comm.status()));
  verdict.sound = true;
  if (number < 0) return Agree(run.team, absl::OkStatus());
  Status status = WriteWithTeam(*comm, run, part, verdict, counts);
  status.Update(comm->Close());
  return Agree(run.team, status);
}

// Writes what this rank has, file by file. Local.
Status WriteAlone(SaveRun& run, WriteCounts& counts) {
  if (run.team.is_root() && KnowsIndex(run)) {
    BELAY_RETURN_IF_ERROR(PrepareIndex(run));
  }
  for (const PlannedFile& file : run.cache.planned.files) {
    BELAY_RETURN_IF_ERROR(
        WriteIndependently(JobOf(run, file, Part::kPlain), counts));
  }
  return absl::OkStatus();
}

// A file that is open while others write it is told of every page that failed
// on its way to the device. Of very many files the rest is opened afterwards.
constexpr size_t kMostOpen = 64;

bool IsSyncer(const SaveRun& run) {
  return run.options.durable && run.cache.planned.is_syncer;
}

// Opens what this rank is to sync. Local.
StatusOr<std::vector<PosixFile>> OpenMyFilesForSync(const SaveRun& run) {
  std::vector<PosixFile> opened;
  if (!IsSyncer(run)) return opened;
  for (const PlannedFile& file : run.cache.planned.files) {
    if (opened.size() == kMostOpen) break;
    BELAY_ASSIGN_OR_RETURN(
        PosixFile one,
        PosixFile::Open(run.DataPath(file), PosixFile::Mode::kWriteOnly));
    opened.push_back(std::move(one));
  }
  return opened;
}

// Syncs the files for all ranks of this node, which have written by now. Where
// MPI-IO wrote, that is done. Local.
Status SyncMyFiles(const SaveRun& run,
                   StatusOr<std::vector<PosixFile>> opened) {
  const bool by_posix = run.result.transfer == Transfer::kIndependent ||
                        run.result.transfer == Transfer::kTwoPhase;
  BELAY_RETURN_IF_ERROR(opened.status());
  if (!IsSyncer(run) || !by_posix) return absl::OkStatus();
  const std::vector<PlannedFile>& files = run.cache.planned.files;
  for (size_t i = 0; i < files.size(); ++i) {
    if (i == opened->size()) {
      BELAY_ASSIGN_OR_RETURN(
          PosixFile one,
          PosixFile::Open(run.DataPath(files[i]), PosixFile::Mode::kWriteOnly));
      opened->push_back(std::move(one));
    }
    BELAY_RETURN_IF_ERROR((*opened)[i].Sync());
    BELAY_RETURN_IF_ERROR((*opened)[i].Close());
  }
  return absl::OkStatus();
}

// Looks for holes and wrong sizes in the files that this rank has created.
// Returns their sizes. Local.
StatusOr<std::vector<int64_t>> CheckMyFiles(SaveRun& run, bool& has_holes) {
  std::vector<int64_t> sizes;
  for (const PlannedFile& file : run.cache.planned.files) {
    if (!file.is_creator) continue;
    int64_t bytes = run.cache.skeletons[sizes.size()].skeleton.file_bytes;
    if (file.HasFilters()) {
      BELAY_ASSIGN_OR_RETURN(bytes, FileBytes(run.DataPath(file)));
    }
    bool holes = false;
    BELAY_RETURN_IF_ERROR(CheckWrittenFile(run.DataPath(file), bytes, holes));
    has_holes = has_holes || holes;
    sizes.push_back(bytes);
  }
  return sizes;
}

// Local.
Status ReadBackMine(SaveRun& run) {
  for (const PlannedFile& file : run.cache.planned.files) {
    BELAY_RETURN_IF_ERROR(ReadBack(JobOf(run, file, Part::kPlain)));
    BELAY_RETURN_IF_ERROR(ReadBackFiltered(JobOf(run, file, Part::kFiltered)));
  }
  return absl::OkStatus();
}

// Reads back what has passed filters of which nothing is known. Local.
Status ReadBackUnsure(SaveRun& run) {
  for (const PlannedFile& file : run.cache.planned.files) {
    if (file.IsLossless()) continue;
    BELAY_RETURN_IF_ERROR(ReadBackFiltered(JobOf(run, file, Part::kFiltered)));
  }
  return absl::OkStatus();
}

bool IsTogether(const SaveRun& run) {
  // A team of one rank needs no collective call.
  return run.result.transfer == Transfer::kHdf5 ||
         (run.result.transfer != Transfer::kIndependent &&
          run.options.file_layout != FileLayout::kPerTask);
}

// Tries a transfer that needs all ranks; `done` says whether the MPI-IO was fit
// for it, and `note` why. Collective.
Status TryTogether(SaveRun& run, Part part, WriteCounts& counts, bool& done,
                   std::string& note) {
  MpiIoVerdict verdict;
  Status status;
  if (run.options.file_layout == FileLayout::kShared) {
    status = WriteTogether(run.team, run, part, verdict, counts);
  } else {
    status = WritePerTeam(run, part, verdict, counts);
  }
  BELAY_RETURN_IF_AGREED(status);
  std::vector<int64_t> sound = {verdict.sound ? 1 : 0};
  BELAY_RETURN_IF_AGREED(MinAll(run.team, sound));
  done = sound[0] == 1;
  note = verdict.note;
  return absl::OkStatus();
}

// Writes what passes filters, by HDF5's own collective writes. Collective.
Status WriteFiltered(SaveRun& run, WriteCounts& counts) {
  bool done = false;
  std::string note;
  BELAY_RETURN_IF_AGREED(TryTogether(run, Part::kFiltered, counts, done, note));
  if (done) return absl::OkStatus();
  return Agree(run.team, absl::FailedPreconditionError(absl::StrFormat(
                             "save \"%s\": chunks with filters are written by "
                             "MPI-IO, which is not safe as it is set up: %s",
                             run.path, note)));
}

// Whether any file has holes; `sizes` become those of the files of this rank. A
// file system may show only what is synced as allocated: where there seem to be
// holes, all look again once all have synced. Collective; agreed.
StatusOr<bool> FindHoles(SaveRun& run, std::vector<int64_t>& sizes) {
  Status status = run.progress_status;
  status.Update(run.sync_status);
  std::vector<int64_t> flags = {0};
  for (int look = 0; look < 2 && flags[0] == 0; ++look) {
    bool has_holes = false;
    StatusOr<std::vector<int64_t>> found = CheckMyFiles(run, has_holes);
    status.Update(found.status());
    flags[0] = has_holes ? 0 : 1;
    BELAY_RETURN_IF_AGREED(MinAll(run.team, flags, status));
    sizes = *std::move(found);
  }
  return flags[0] == 0;
}

}  // namespace

Status WriteStage(SaveRun& run) {
  const PlannedSave& planned = run.cache.planned;
  run.stages.Enter("write", planned.work);
  run.registers.assign(run.options.checksums ? planned.num_blocks : 0, 0);
  if (planned.num_files == 0) return absl::OkStatus();
  // Equal on all ranks: options and plan are.
  const TransferChoice choice = ChooseTransfer(
      run.options.transfer, planned.mean_run_bytes, planned.stripes);
  run.result.transfer = choice.transfer;
  StatusOr<std::vector<PosixFile>> synced = OpenMyFilesForSync(run);
  WriteCounts counts;
  bool done = false;
  if (IsTogether(run)) {
    BELAY_RETURN_IF_AGREED(
        TryTogether(run, Part::kPlain, counts, done, run.result.transfer_note));
  }
  if (!done) {
    // Other nodes may have written already.
    std::fill(run.registers.begin(), run.registers.end(), 0);
    counts = {};
    run.result.transfer = Transfer::kIndependent;
    BELAY_RETURN_IF_AGREED(Agree(run.team, WriteAlone(run, counts)));
  }
  if (planned.has_filters) BELAY_RETURN_IF_AGREED(WriteFiltered(run, counts));
  run.sync_status = SyncMyFiles(run, std::move(synced));
  run.result.counters.bytes = counts.bytes;
  run.result.counters.io_calls = counts.io_calls;
  run.result.counters.collective_io = counts.collective_io;
  run.result.counters.staged_bytes = counts.staged_bytes;
  if (run.result.transfer_note.empty()) run.result.transfer_note = choice.note;
  run.stripes = std::move(counts.stripes);
  return absl::OkStatus();
}

Status VerifyStage(SaveRun& run) {
  run.stages.Enter("verify");
  std::vector<int64_t> sizes;
  BELAY_ASSIGN_OR_RETURN_AGREED(const bool has_holes, FindHoles(run, sizes));
  if (run.cache.planned.has_filters) {
    BELAY_RETURN_IF_AGREED(GatherFileSizes(run.team, sizes, run.cache.planned));
  }
  // Fewer bytes allocated than written is a loss, or a file system that
  // compresses: reading back tells.
  if (run.options.read_back || has_holes) {
    BELAY_RETURN_IF_AGREED(Agree(run.team, ReadBackMine(run)));
  } else if (run.cache.planned.has_filters) {
    BELAY_RETURN_IF_AGREED(Agree(run.team, ReadBackUnsure(run)));
  }
  if (run.registers.empty()) return absl::OkStatus();
  return XorToRoot(run.team, run.registers);
}

}  // namespace belay
