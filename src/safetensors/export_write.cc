// Stage write of an export: from the checkpoint into safetensors files, a
// window at a time.

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/catch_bad_alloc.h"
#include "base/catch_exceptions.h"
#include "base/status_macros.h"
#include "bytes/huge_pages.h"
#include "io/files/posix_file.h"
#include "io/transfer/reader.h"
#include "safetensors/export_stages.h"

namespace belay {
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
