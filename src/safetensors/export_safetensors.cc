#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "belay/checkpoint_reader.h"
#include "belay/safetensors.h"
#include "core/agreed.h"
#include "core/catch_exceptions.h"
#include "core/flat_buffer.h"
#include "core/process.h"
#include "core/status_macros.h"
#include "core/wire.h"
#include "pipeline/save_options.h"
#include "pipeline/stages.h"
#include "restore/restore_stages.h"
#include "safetensors/export_stages.h"
#include "storage/belay_files.h"
#include "storage/index_file.h"
#include "storage/posix_file.h"
#include "storage/reader.h"
#include "storage/stored_chunks.h"

namespace belay {
namespace {

Status CheckArguments(const ExportFrame& frame, ExportFiles& files) {
  const ExportOptions& options = frame.options;
  const std::string start = absl::StrFormat("export \"%s\"", frame.dir);
  if (frame.step.value_or(0) < 0) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%s: step is out of range (need 0 to %d, found %d)",
                        start, INT64_MAX, *frame.step));
  }
  if (options.max_file_bytes < 0) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "%s: max_file_bytes is out of range (need at least 0, found %d)", start,
        options.max_file_bytes));
  }
  BELAY_RETURN_IF_ERROR(CheckBytesInFlight(start, options.max_bytes_in_flight));
  BELAY_RETURN_IF_ERROR(CheckDeadlineSeconds(start, options.deadline_seconds));
  BELAY_ASSIGN_OR_RETURN(files.place, PlaceOfExport(frame.out));
  return absl::OkStatus();
}

// All that has to be the same on all ranks.
std::vector<CommonOption> CommonArguments(const ExportFrame& frame) {
  const ExportOptions& options = frame.options;
  WireWriter metadata, keys;
  for (const auto& [name, text] : options.metadata) {
    metadata.PutText(name);
    metadata.PutText(text);
  }
  keys.PutTexts(options.keys);
  const auto number = [](const char* name, int64_t value) {
    WireWriter out;
    out.Put(value);
    return CommonOption{name, out.Take()};
  };
  return {
      {"the directory", frame.dir},
      {"the step", frame.step ? absl::StrFormat("%d", *frame.step) : ""},
      {"the destination", frame.out},
      {"the option keys", keys.Take()},
      {"the option metadata", metadata.Take()},
      number("the option leave_out_others", options.leave_out_others),
      number("the option max_file_bytes", options.max_file_bytes),
      number("the option overwrite", options.overwrite),
      number("the option checksums", options.checksums),
      number("the option durable", options.durable),
      number("the option max_bytes_in_flight", options.max_bytes_in_flight)};
}

// Rank 0 only.
StatusOr<OpenedExport> OpenOnRoot(const ExportFrame& frame) {
  OpenedExport opened;
  if (frame.step) {
    opened.path = StepPath(frame.dir, *frame.step);
  } else {
    BELAY_ASSIGN_OR_RETURN(opened.path, ResolveStep(frame.dir));
  }
  const StatusOr<uint64_t> identity = IndexIdentity(opened.path);  // first
  StatusOr<SavedCheckpoint> saved = ReadIndex(opened.path);
  if (absl::IsNotFound(saved.status())) {
    return NoSuchStep("export", opened.path);
  }
  BELAY_RETURN_IF_ERROR(saved.status());
  BELAY_RETURN_IF_ERROR(identity.status());
  opened.saved = *std::move(saved);
  opened.identity = *identity;
  BELAY_RETURN_IF_ERROR(CheckDataFiles(opened.path, opened.saved));
  BELAY_RETURN_IF_ERROR(CheckStoredChunks(opened.path, opened.saved));
  BELAY_RETURN_IF_ERROR(CheckChunksFit("export", opened.path, opened.saved));
  return opened;
}

// Collective; agreed.
Agreed<OpenedExport> Open(const ExportFrame& frame) {
  frame.stages.Enter("open");
  StatusOr<OpenedExport> opened = OpenedExport();
  BELAY_RETURN_IF_AGREED(OnRoot(frame.context, [&] {
    opened = OpenOnRoot(frame);
    return opened.status();
  }));
  return *std::move(opened);
}

// So that whoever waits in vain has an error before the deadline.
double LockSeconds(double deadline_seconds) {
  constexpr double kMost = 30;
  return deadline_seconds > 0 ? std::min(kMost, deadline_seconds / 2) : kMost;
}

// Rank 0 only.
Status ReserveOnRoot(const safetensors::FilePlan& plan, ExportFiles& files) {
  BELAY_RETURN_IF_ERROR(BeginExport(files));
  for (const safetensors::PlannedFile& file : plan.files) {
    BELAY_RETURN_IF_ERROR(
        MakeExportFile(files, file.name, file.head, file.bytes));
  }
  if (plan.index_name.empty()) return absl::OkStatus();
  return MakeExportFile(files, plan.index_name, plan.index_text,
                        std::ssize(plan.index_text));
}

// Compares what was read with its checksums. Collective; agreed.
Agreed<BlockCounts> Verify(const ExportFrame& frame, const OpenedExport& opened,
                           const PlannedExport& planned, ExportedData& data) {
  if (!planned.checks) return BlockCounts{};
  frame.stages.Enter("verify");
  return CompareTogether(
      frame.context, absl::StrFormat("export \"%s\"", planned.result.path),
      {opened.saved, planned.reading, data.registers, data.covered});
}

// All stages once there may be files. Collective; agreed.
Agreed<> WriteFiles(const ExportFrame& frame, const OpenedExport& opened,
                    PlannedExport& planned, ExportFiles& files) {
  frame.stages.Enter("reserve");
  BELAY_RETURN_IF_AGREED(OnRoot(
      frame.context, [&] { return ReserveOnRoot(planned.plan, files); }));
  frame.stages.Enter("write");
  StatusOr<ExportedData> data = WriteWindows(frame.options, planned);
  BELAY_RETURN_IF_AGREED(Agree(frame.context, data.status()));
  BELAY_ASSIGN_OR_RETURN_AGREED(const BlockCounts blocks,
                                Verify(frame, opened, planned, *data));
  planned.result.blocks_verified = blocks.verified;
  planned.result.blocks_partial = blocks.partial;
  planned.result.counters.bytes = data->bytes;
  planned.result.counters.io_calls = data->io_calls;
  frame.stages.Enter("commit");
  return OnRoot(frame.context, [&]() -> Status {
    BELAY_RETURN_IF_ERROR(
        CheckSameStep("export", opened.path, opened.identity));
    return NameExport(files);
  });
}

// Either all files have their names, or none is left. Local; rank 0 does it.
void CleanUp(const CommContext& context, ExportFiles& files,
             const Status& status) {
  if (!context.is_root()) return;
  if (status.ok()) {
    FinishExport(files);
  } else {
    UndoExport(files);
  }
}

// The files have their names: counters that cannot be combined stay those of
// this rank. Collective.
void Report(const ExportFrame& frame, ExportResult& result) {
  TransferCounters& counters = result.counters;
  counters.files = std::ssize(result.files);
  counters.peak_memory_bytes = PeakMemoryBytes();
  counters.stages = frame.stages.Finish();
  static_cast<void>(CombineCounters(frame.context, counters));
}

// All stages. Collective; agreed.
Agreed<ExportResult> RunExport(const ExportFrame& frame) {
  ExportFiles files{
      .place = {},
      .nonce = NewNonce(),
      .overwrite = frame.options.overwrite,
      .durable = frame.options.durable,
      .lock_seconds = LockSeconds(frame.options.deadline_seconds)};
  frame.stages.Enter("list");
  BELAY_RETURN_IF_AGREED(Agree(frame.context, CheckArguments(frame, files)));
  BELAY_RETURN_IF_AGREED(
      AgreeOnArguments(frame.context, "export", CommonArguments(frame)));
  BELAY_ASSIGN_OR_RETURN_AGREED(const OpenedExport opened, Open(frame));
  BELAY_ASSIGN_OR_RETURN_AGREED(PlannedExport planned,
                                PlanExported(frame, opened, files));
  Agreed<> written = WriteFiles(frame, opened, planned, files);
  CleanUp(frame.context, files, written.status());
  BELAY_RETURN_IF_AGREED(std::move(written));
  Report(frame, planned.result);
  return std::move(planned.result);
}

}  // namespace

StatusOr<ExportResult> ExportSafetensors(const Comm& comm,
                                         const std::string& dir,
                                         std::optional<int64_t> step,
                                         const std::string& out,
                                         const ExportOptions& options) {
  BELAY_RETURN_IF_AGREED(CheckComm(comm, "export", dir));
  CommContext context{comm, Deadline(comm, options.deadline_seconds,
                                     absl::StrFormat("export \"%s\"", dir))};
  Stages stages(context);
  return RunExport({context, stages, dir, step, out, options});
}

// Stage write of an export: from the checkpoint into safetensors files, a
// window at a time.

namespace {

using safetensors::Window;

// The file that this rank is at, of those that it writes one after the other.
class FileToFill {
 public:
  FileToFill(const ExportOptions& options, const PlannedExport& planned)
      : options_(options), planned_(planned) {}

  Status Write(const Window& window, const char* data) {
    if (!file_ || window.file != index_) BELAY_RETURN_IF_ERROR(Open(window));
    BELAY_RETURN_IF_ERROR(file_->PwriteAll(window.offset, data, window.bytes));
    if (options_.durable) {
      file_->StartWriteback(window.offset, window.bytes);
    }
    return absl::OkStatus();
  }

  Status Close() {
    if (!file_) return absl::OkStatus();
    calls_ += file_->write_calls();
    if (options_.durable) BELAY_RETURN_IF_ERROR(file_->Sync());
    BELAY_RETURN_IF_ERROR(file_->Close());
    file_.reset();
    return absl::OkStatus();
  }

  int64_t calls() const { return calls_; }

 private:
  Status Open(const Window& window) {
    BELAY_RETURN_IF_ERROR(Close());
    index_ = window.file;
    const std::string& path = planned_.temporary_paths[index_];
    StatusOr<PosixFile> file = PosixFile::Open(path, PosixFile::Mode::kWrite);
    if (absl::IsNotFound(file.status())) return NotShared(path);
    BELAY_RETURN_IF_ERROR(file.status());
    file_ = *std::move(file);
    BELAY_ASSIGN_OR_RETURN(const FileStat stat, file_->Stat());
    const int64_t bytes = planned_.result.files[index_].bytes;
    return stat.size == bytes ? absl::OkStatus() : NotShared(path);
  }

  static Status NotShared(const std::string& path) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "export \"%s\": this rank does not see the file that rank 0 has made; "
        "all ranks need the same file system, and no other job may export to "
        "this name",
        path));
  }

  const ExportOptions& options_;
  const PlannedExport& planned_;
  std::optional<PosixFile> file_;
  int32_t index_ = -1;
  int64_t calls_ = 0;
};

// The orders of each window, in their order.
std::vector<RankReads> ReadsByWindow(const PlannedExport& planned) {
  const std::vector<Window>& windows = planned.part.windows;
  std::vector<size_t> window_of(planned.part.shards.size());
  for (size_t i = 0; i < windows.size(); ++i) {
    for (int32_t s = windows[i].begin_shard; s < windows[i].end_shard; ++s) {
      window_of[s] = i;
    }
  }
  std::vector<RankReads> reads(windows.size());
  for (const ReadOrder& order : planned.reads.orders) {
    reads[window_of[order.shard]].orders.push_back(order);
  }
  return reads;
}

std::vector<Shard> ShardsOf(const std::vector<ShardInfo>& infos) {
  std::vector<Shard> shards;
  for (const ShardInfo& info : infos) {
    shards.push_back({.key = info.key,
                      .dtype = info.dtype,
                      .global_shape = info.global_shape,
                      .box = info.box});
  }
  return shards;
}

// Puts the shards of a window into memory, end to end as in the file.
Status PlaceShards(const Window& window, ReusableBytes& memory,
                   std::vector<Shard>& shards) {
  BELAY_RETURN_IF_ERROR(
      CatchBadAlloc(absl::StrFormat("%d bytes to export", window.bytes), [&] {
        if (memory.size < window.bytes) Reserve(memory, window.bytes);
        return absl::OkStatus();
      }));
  std::byte* next = memory.bytes.get();
  for (int32_t s = window.begin_shard; s < window.end_shard; ++s) {
    Shard& shard = shards[s];
    shard.data = next;
    next += NumElements(shard.box.shape) * DTypeSize(shard.dtype);
  }
  return absl::OkStatus();
}

int64_t MostWindowBytes(const std::vector<Window>& windows) {
  int64_t most = 0;
  for (const Window& window : windows) most = std::max(most, window.bytes);
  return most;
}

Status ReportProgress(const ExportOptions& options, int64_t done,
                      int64_t total) {
  if (!options.progress) return absl::OkStatus();
  return CatchExceptions([&] {
    options.progress(done, total);
    return absl::OkStatus();
  });
}

}  // namespace

StatusOr<ExportedData> WriteWindows(const ExportOptions& options,
                                    const PlannedExport& planned) {
  const std::vector<Window>& windows = planned.part.windows;
  const std::vector<RankReads> reads = ReadsByWindow(planned);
  std::vector<Shard> shards = ShardsOf(planned.part.shards);
  int64_t total = 0;
  for (const Window& window : windows) total += window.bytes;
  ReusableBytes memory;
  ReadCounts counts;
  ExportedData data;
  BELAY_RETURN_IF_ERROR(CatchBadAlloc("the checksums of all blocks", [&] {
    data.registers.assign(planned.checks ? planned.num_blocks : 0, 0);
    data.covered.assign(planned.checks ? planned.num_blocks : 0, 0);
    return absl::OkStatus();
  }));
  // The next windows may be of the same chunks.
  FilteredReader chunks(options.max_bytes_in_flight - MostWindowBytes(windows));
  FileToFill file(options, planned);
  int64_t done = 0;
  for (size_t i = 0; i < reads.size(); ++i) {
    const Window& window = windows[i];
    BELAY_RETURN_IF_ERROR(PlaceShards(window, memory, shards));
    BELAY_RETURN_IF_ERROR(ReadAll({.shards = shards,
                                   .reads = reads[i],
                                   .directory = planned.result.path,
                                   .file_names = planned.file_names,
                                   .filtered = planned.filtered,
                                   .registers = data.registers,
                                   .covered = data.covered,
                                   .stages_slow_targets = false,
                                   .kept_chunks = &chunks},
                                  counts));
    BELAY_RETURN_IF_ERROR(
        file.Write(window, reinterpret_cast<const char*>(memory.bytes.get())));
    done += window.bytes;
    BELAY_RETURN_IF_ERROR(ReportProgress(options, done, total));
  }
  chunks.Close();
  BELAY_RETURN_IF_ERROR(file.Close());
  data.bytes = counts.bytes;
  data.io_calls = counts.io_calls + file.calls();
  return data;
}

}  // namespace belay
