#include "save/save_write.h"

#include <unistd.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "absl/strings/str_format.h"
#include "core/agreed.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "save/save_stages.h"
#include "save/transfer_choice.h"
#include "storage/files_to_sync.h"
#include "storage/transfer.h"

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

// Stage write of a save: all bytes into the data files.

namespace {

// What the parts of this stage share: its arguments, and what comes of them.
struct Writing {
  const SaveFrame& frame;
  const ReservedSave& reserved;
  const std::vector<Shard>& shards;
  const ReusablePlan& plan;
  IndexCreation& index;
  const std::function<Status(int64_t)>& progress;
  WrittenData& written;

  const std::vector<PlannedFile>& files() const { return plan.planned.files; }
};

// The job of a transfer that writes its part of a file.
WriteJob JobOf(const Writing& writing, const PlannedFile& file,
               DatasetPart part) {
  WriteJob job =
      DataFileJob(writing.frame, writing.shards, writing.plan, file, part);
  job.registers = writing.written.registers;
  job.losses = writing.written.losses;
  job.once_open = OnceOpen(writing.frame.target, writing.reserved.nonce);
  if (writing.index.IsDue()) {
    job.meanwhile = [&index = writing.index] { return index.Create(); };
  }
  if (writing.progress) {
    job.progress = [&writing](int64_t bytes) {
      writing.written.status.Update(writing.progress(bytes));
    };
  }
  return job;
}

Transfer TransferOf(const Writing& writing, DatasetPart part) {
  return part == DatasetPart::kFiltered ? Transfer::kHdf5
                                        : writing.written.transfer;
}

// Writes a file by one of the transfers that need all ranks of its team.
// Collective.
Agreed<> WriteOne(Transfer transfer, CommContext& context, const WriteJob& job,
                  MpiIoVerdict& verdict, WriteCounts& counts) {
  if (transfer == Transfer::kTwoPhase) {
    return WriteInTwoPhases(context, job, counts);
  }
  if (transfer == Transfer::kHdf5) {
    return WriteWithHdf5(context, job, verdict, counts);
  }
  return WriteCollectively(context, job, verdict, counts);
}

// Writes the files of a team one after the other; all its ranks take part in
// each. Collective.
Agreed<> WriteTogether(CommContext& context, const Writing& writing,
                       DatasetPart part, MpiIoVerdict& verdict,
                       WriteCounts& counts) {
  verdict.sound = true;
  for (const PlannedFile& file : writing.files()) {
    if (part == DatasetPart::kFiltered && !file.HasFilters()) continue;
    const WriteJob job = JobOf(writing, file, part);
    BELAY_RETURN_IF_AGREED(
        WriteOne(TransferOf(writing, part), context, job, verdict, counts));
    if (!verdict.sound) break;
  }
  return {};
}

// Writes the files of a team that is a part of all ranks, those of `comm`.
// Collective.
Agreed<> WriteWithTeam(const Comm& comm, const Writing& writing,
                       DatasetPart part, MpiIoVerdict& verdict,
                       WriteCounts& counts) {
  const std::string path = writing.frame.target.DataPath(writing.files()[0]);
  CommContext context{
      .comm = comm,
      .deadline = Deadline(comm, writing.frame.options.deadline_seconds,
                           absl::StrFormat("save \"%s\"", path)),
      .whole = &writing.frame.context.comm};
  context.deadline.Enter("write");
  Agreed<> written = WriteTogether(context, writing, part, verdict, counts);
  writing.frame.context.messages += context.messages;
  return written;
}

// All teams at once; a rank without one has nothing to do. Collective.
Agreed<> WritePerTeam(const Writing& writing, DatasetPart part,
                      MpiIoVerdict& verdict, WriteCounts& counts) {
  const int32_t number = writing.plan.planned.team;
  StatusOr<Comm> comm = writing.frame.context.comm.Split(number);
  BELAY_RETURN_IF_AGREED(Agree(writing.frame.context, comm.status()));
  verdict.sound = true;
  if (number < 0) return Agree(writing.frame.context, absl::OkStatus());
  Status status = WriteWithTeam(*comm, writing, part, verdict, counts);
  status.Update(comm->Close());
  return Agree(writing.frame.context, status);
}

// Writes what this rank has, file by file.
Status WriteAlone(const Writing& writing, WriteCounts& counts) {
  if (writing.index.IsDue()) BELAY_RETURN_IF_ERROR(writing.index.Create());
  for (const PlannedFile& file : writing.files()) {
    BELAY_RETURN_IF_ERROR(
        WriteIndependently(JobOf(writing, file, DatasetPart::kPlain), counts));
  }
  return absl::OkStatus();
}

bool IsSyncer(const Writing& writing) {
  return writing.frame.options.durable && writing.plan.planned.is_syncer;
}

// Opens what this rank is to sync.
StatusOr<FilesToSync> OpenMyFilesForSync(const Writing& writing) {
  std::vector<std::string> paths;
  if (!IsSyncer(writing)) return FilesToSync();
  for (const PlannedFile& file : writing.files()) {
    paths.push_back(writing.frame.target.DataPath(file));
  }
  return FilesToSync::Open(std::move(paths));
}

// Syncs the files for all ranks of this node, which have written by now. Where
// MPI-IO wrote, that is done.
Status SyncMyFiles(const Writing& writing, StatusOr<FilesToSync> files) {
  const bool by_posix = writing.written.transfer == Transfer::kIndependent ||
                        writing.written.transfer == Transfer::kTwoPhase;
  BELAY_RETURN_IF_ERROR(files.status());
  return by_posix ? files->SyncAll() : absl::OkStatus();
}

// Tries a transfer that needs all ranks; `done` says whether the MPI-IO was fit
// for it, and `note` why. Collective.
Agreed<> TryTogether(const Writing& writing, DatasetPart part,
                     WriteCounts& counts, bool& done, std::string& note) {
  MpiIoVerdict verdict;
  const bool is_shared =
      writing.frame.options.file_layout == FileLayout::kShared;
  BELAY_RETURN_IF_AGREED(
      is_shared
          ? WriteTogether(writing.frame.context, writing, part, verdict, counts)
          : WritePerTeam(writing, part, verdict, counts));
  std::vector<int64_t> sound = {verdict.sound ? 1 : 0};
  BELAY_RETURN_IF_AGREED(MinAll(writing.frame.context, sound));
  done = sound[0] == 1;
  note = verdict.note;
  return {};
}

// Writes what passes filters, by HDF5's own collective writes. Collective.
Agreed<> WriteFiltered(const Writing& writing, WriteCounts& counts) {
  bool done = false;
  std::string note;
  BELAY_RETURN_IF_AGREED(
      TryTogether(writing, DatasetPart::kFiltered, counts, done, note));
  if (done) return {};
  return Agree(writing.frame.context,
               absl::FailedPreconditionError(absl::StrFormat(
                   "save \"%s\": chunks with filters are written by "
                   "MPI-IO, which is not safe as it is set up: %s",
                   writing.frame.target.path, note)));
}

// Says what `written.transfer` does not.
void AddFilterNote(WrittenData& written) {
  if (written.transfer == Transfer::kHdf5) return;
  std::string& note = written.transfer_note;
  note += Cat(note.empty() ? "" : "; ",
              "chunks with filters by collective HDF5 writes");
}

}  // namespace

void ResetLosses(const std::vector<Shard>& shards, const ReusablePlan& plan,
                 WrittenData& written) {
  written.losses.assign(plan.forms.empty() ? 0 : shards.size(), {});
}

bool NeedsAllRanks(Transfer transfer, FileLayout layout) {
  // A team of one rank needs no collective call.
  return transfer == Transfer::kHdf5 ||
         (transfer != Transfer::kIndependent && layout != FileLayout::kPerTask);
}

Agreed<WrittenData> WriteData(const SaveFrame& frame,
                              const ReservedSave& reserved,
                              const std::vector<Shard>& shards,
                              const ReusablePlan& plan, IndexCreation& index,
                              const std::function<Status(int64_t)>& progress) {
  const PlannedSave& planned = plan.planned;
  frame.stages.Enter("write", planned.work);
  WrittenData written;
  written.registers.assign(frame.options.checksums ? planned.num_blocks : 0, 0);
  ResetLosses(shards, plan, written);
  // Equal on all ranks: options and plan are.
  const TransferChoice choice =
      ChooseTransfer(frame.options.transfer, frame.options.file_layout,
                     planned.mean_run_bytes, planned.stripes);
  written.transfer = choice.transfer;
  if (planned.num_files == 0) return written;
  const Writing writing{frame, reserved, shards, plan,
                        index, progress, written};
  StatusOr<FilesToSync> synced = OpenMyFilesForSync(writing);
  WriteCounts counts;
  bool done = false;
  if (NeedsAllRanks(written.transfer, frame.options.file_layout)) {
    BELAY_RETURN_IF_AGREED(TryTogether(writing, DatasetPart::kPlain, counts,
                                       done, written.transfer_note));
  }
  if (!done) {
    // Other nodes may have written already.
    std::fill(written.registers.begin(), written.registers.end(), 0);
    ResetLosses(shards, plan, written);
    counts = {};
    written.transfer = Transfer::kIndependent;
    BELAY_RETURN_IF_AGREED(Agree(frame.context, WriteAlone(writing, counts)));
  }
  if (planned.has_filters) {
    BELAY_RETURN_IF_AGREED(WriteFiltered(writing, counts));
  }
  written.status.Update(SyncMyFiles(writing, std::move(synced)));
  written.counters.bytes = counts.bytes;
  written.counters.io_calls = counts.io_calls;
  written.counters.collective_io = counts.collective_io;
  written.counters.staged_bytes = counts.staged_bytes;
  if (written.transfer_note.empty()) written.transfer_note = choice.note;
  if (planned.has_filters) AddFilterNote(written);
  written.stripes = std::move(counts.stripes);
  return written;
}

}  // namespace belay
