// The write stage of a save. It writes all bytes into the data files.
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
#include "storage/posix_file.h"
#include "storage/transfer.h"

namespace belay {
namespace {

// Returns true if more ranks of this node share a file than the node has cores.
bool IsCrowded(const RankPlan& plan) {
  const int64_t cores = ::sysconf(_SC_NPROCESSORS_ONLN);
  return cores > 0 && plan.node_ranks > cores;
}

}  // namespace

WriteJob DataFileJob(const SaveFrame& frame, const PreparedSave& save,
                     const PlannedFile& file, DatasetPart part) {
  const bool filtered = part == DatasetPart::kFiltered;
  return {.shards = save.listed.shards,
          .writes = filtered ? file.filtered : file.writes,
          .path = frame.target.DataPath(file),
          .forms = save.plan.forms,
          .registers = {},
          .durable = frame.options.durable,
          .is_creator = file.is_creator,
          .is_syncer = save.plan.is_syncer,
          .is_crowded = IsCrowded(save.plan),
          .once_open = nullptr,
          .meanwhile = nullptr,
          .progress = nullptr,
          .rounds = file.rounds,
          .memory = frame.options.max_bytes_in_flight,
          .mean_run_bytes = save.plan.mean_run_bytes,
          .hints = frame.options.mpi_io_hints,
          .striping = file.striping,
          .datasets = &file.datasets,
          .calls = &file.calls,
          .corners = &file.corners,
          .filtered = filtered};
}

namespace {

// The arguments of this stage, and its result.
struct Writing {
  SaveFrame& frame;
  const PreparedSave& save;
  const StepInProgress& step;
  IndexCreation& index;
  const std::function<Status(int64_t)>& progress;
  WrittenData& written;

  const std::vector<PlannedFile>& files() const { return save.plan.files; }
};

WriteJob MakeJob(const Writing& writing, const PlannedFile& file,
                 DatasetPart part) {
  WriteJob job = DataFileJob(writing.frame, writing.save, file, part);
  job.registers = writing.written.registers;
  job.losses = writing.written.losses;
  job.once_open = OnceOpen(writing.step);
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

// Writes a file with a transfer that needs all ranks of the file's team.
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

// Writes the files of a team one after another, each by all ranks of the team.
// Collective.
Agreed<> WriteTogether(CommContext& context, const Writing& writing,
                       DatasetPart part, MpiIoVerdict& verdict,
                       WriteCounts& counts) {
  verdict.sound = true;
  for (const PlannedFile& file : writing.files()) {
    if (part == DatasetPart::kFiltered && !file.HasFilters()) continue;
    const WriteJob job = MakeJob(writing, file, part);
    BELAY_RETURN_IF_AGREED(
        WriteOne(job.filtered ? Transfer::kHdf5 : writing.written.transfer,
                 context, job, verdict, counts));
    if (!verdict.sound) break;
  }
  return {};
}

// Writes the files of the team whose ranks are those of `comm`. Collective.
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

// Writes the files of all teams, which work in parallel. Collective.
Agreed<> WritePerTeam(const Writing& writing, DatasetPart part,
                      MpiIoVerdict& verdict, WriteCounts& counts) {
  const int32_t number = writing.save.plan.team;
  StatusOr<Comm> comm = writing.frame.context.comm.Split(number);
  BELAY_RETURN_IF_AGREED(Agree(writing.frame.context, comm.status()));
  verdict.sound = true;
  if (number < 0) return Agree(writing.frame.context, absl::OkStatus());
  Status status = WriteWithTeam(*comm, writing, part, verdict, counts);
  status.Update(comm->Close());
  return Agree(writing.frame.context, status);
}

// Writes this rank's part, file by file.
Status WriteAlone(const Writing& writing, WriteCounts& counts) {
  if (writing.index.IsDue()) BELAY_RETURN_IF_ERROR(writing.index.Create());
  for (const PlannedFile& file : writing.files()) {
    BELAY_RETURN_IF_ERROR(WriteIndependently(
        MakeJob(writing, file, DatasetPart::kPlain), counts));
  }
  return absl::OkStatus();
}

// Syncs the files for all ranks of this node, which have all written. MPI-IO
// has already synced what it wrote.
Status SyncMyFiles(const Writing& writing, StatusOr<FilesToSync> files) {
  const bool by_posix = writing.written.transfer == Transfer::kIndependent ||
                        writing.written.transfer == Transfer::kTwoPhase;
  BELAY_RETURN_IF_ERROR(files.status());
  return by_posix ? files->SyncAll() : absl::OkStatus();
}

// Tries a transfer that needs all ranks. Sets `done` to false if MPI-IO is not
// safe to use, and `note` to the reason. Collective.
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

// Writes the datasets with filters, by collective HDF5 writes. Collective.
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

}  // namespace

void WrittenData::Reset(const SaveFrame& frame, const PreparedSave& save) {
  registers.assign(frame.options.checksums ? save.plan.num_blocks : 0, 0);
  losses.assign(save.plan.forms.empty() ? 0 : save.listed.shards.size(), {});
}

StatusOr<FilesToSync> OpenFilesToSync(const SaveFrame& frame,
                                      const RankPlan& plan) {
  std::vector<std::string> paths;
  for (const PlannedFile& file : plan.files) {
    paths.push_back(frame.target.DataPath(file));
  }
  return FilesToSync::Open(std::move(paths));
}

bool NeedsAllRanks(Transfer transfer, FileLayout layout) {
  // A team of one rank needs no collective call.
  return transfer == Transfer::kHdf5 ||
         (transfer != Transfer::kIndependent && layout != FileLayout::kPerTask);
}

Agreed<WrittenData> WriteData(SaveFrame& frame, const PreparedSave& save,
                              const StepInProgress& step, IndexCreation& index,
                              const std::function<Status(int64_t)>& progress) {
  const RankPlan& plan = save.plan;
  const SaveOptions& options = frame.options;
  frame.stages.Enter("write", plan.work);
  WrittenData written;
  written.Reset(frame, save);
  // Equal on all ranks, because options and plan are.
  const TransferChoice choice = ChooseTransfer(
      options.transfer, options.file_layout, plan.mean_run_bytes, plan.stripes);
  written.transfer = choice.transfer;
  if (plan.num_files == 0) return written;
  const Writing writing{frame, save, step, index, progress, written};
  StatusOr<FilesToSync> synced = FilesToSync();
  if (options.durable && plan.is_syncer) synced = OpenFilesToSync(frame, plan);
  WriteCounts counts;
  bool done = false;
  if (NeedsAllRanks(written.transfer, options.file_layout)) {
    BELAY_RETURN_IF_AGREED(TryTogether(writing, DatasetPart::kPlain, counts,
                                       done, written.transfer_note));
  }
  if (!done) {
    written.Reset(frame, save);  // other nodes may have written already
    counts = {};
    written.transfer = Transfer::kIndependent;
    BELAY_RETURN_IF_AGREED(Agree(frame.context, WriteAlone(writing, counts)));
  }
  if (plan.has_filters) BELAY_RETURN_IF_AGREED(WriteFiltered(writing, counts));
  written.status.Update(SyncMyFiles(writing, std::move(synced)));
  written.counters.bytes = counts.bytes;
  written.counters.io_calls = counts.io_calls;
  written.counters.collective_io = counts.collective_io;
  written.counters.staged_bytes = counts.staged_bytes;
  std::string& note = written.transfer_note;
  if (note.empty()) note = choice.note;
  if (plan.has_filters && written.transfer != Transfer::kHdf5) {
    note += Cat(note.empty() ? "" : "; ",
                "chunks with filters by collective HDF5 writes");
  }
  written.stripes = std::move(counts.stripes);
  return written;
}

}  // namespace belay
