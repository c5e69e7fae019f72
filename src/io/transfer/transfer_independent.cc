#include <algorithm>
#include <cstring>
#include <functional>
#include <optional>
#include <span>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "geometry/runs.h"
#include "io/files/posix_file.h"
#include "io/transfer/joined_segments.h"
#include "io/transfer/staging.h"
#include "io/transfer/transfer.h"
#include "plan/shard_memory.h"

namespace belay {
namespace {

// Of a tile as it is stored: small enough to stay in a core's cache between
// conversion, checksum and write.
constexpr int64_t kWriteTileBytes = int64_t{512} << 10;
// Write-back is started once this much is waiting.
constexpr int64_t kWritebackBytes = int64_t{4} << 20;

// Writes parts of a file, and starts their way to the device early.
class PartWriter {
 public:
  PartWriter(PosixFile& file, const WriteJob& job)
      : file_(file), write_back_(job.durable), stripes_(job.striping) {}

  const StripeCounter& stripes() const { return stripes_; }

  Status Write(int64_t offset, int64_t bytes,
               std::span<const std::span<const std::byte>> parts) {
    BELAY_RETURN_IF_ERROR(file_.PwriteParts(offset, parts));
    stripes_.Add(offset, bytes);
    if (write_back_ && bytes >= kWritebackBytes) {
      file_.StartWriteback(offset, bytes);
    } else if (write_back_) {
      StartLater(offset, bytes);
    }
    return absl::OkStatus();
  }

 private:
  // Gathers small neighbouring writes into one request.
  void StartLater(int64_t offset, int64_t bytes) {
    if (offset != waiting_until_) waiting_from_ = offset;
    waiting_until_ = offset + bytes;
    if (waiting_until_ - waiting_from_ < kWritebackBytes) return;
    file_.StartWriteback(waiting_from_, waiting_until_ - waiting_from_);
    waiting_from_ = waiting_until_;
  }

  PosixFile& file_;
  bool write_back_;
  StripeCounter stripes_;
  int64_t waiting_from_ = -1;
  int64_t waiting_until_ = -1;
};

// Cuts the orders into tiles and calls `visit` with each, and with the memory
// that holds it as it is stored, until it fails.
Status ForEachStagedTile(
    const WriteJob& job, int64_t tile_bytes, Staging& staging,
    absl::FunctionRef<Status(const WriteOrder&, const Box&, const ShardMemory&)>
        visit) {
  const FormedShards formed{job.shards, job.forms, job.losses};
  for (const WriteOrder& order : job.writes.orders) {
    const int32_t shard = order.shard;
    const bool is_staged = IsStaged(formed, shard);
    const auto visit_tile = [&](const Box& tile) -> Status {
      if (!is_staged) return visit(order, tile, OwnMemory(formed, shard));
      BELAY_RETURN_IF_ERROR(staging.Start(StagedBytes(formed, shard, tile),
                                          job.shards[shard].key));
      return visit(order, tile, StageForSave(formed, shard, tile, staging));
    };
    const int64_t most = tile_bytes / StoredElementSize(formed, shard);
    const int64_t elements = NumElements(order.box.shape);
    if (elements == 0) continue;
    // Most orders of small arrays are one tile.
    BELAY_RETURN_IF_ERROR(elements <= most
                              ? visit_tile(order.box)
                              : TryForEachTile(order.box, most, visit_tile));
  }
  return absl::OkStatus();
}

// Copies and sums a tile at once, if it is one run and there is room for it.
StatusOr<bool> CopyOneRun(const ShardMemory& memory, const Box& tile,
                          const WriteOrder& order, const PartRoom& room,
                          Checksummer& sum) {
  if (!room) return false;
  const std::optional<OneRun> run = FindOneRun(memory, tile, order.extent);
  if (!run) return false;
  BELAY_ASSIGN_OR_RETURN(char* const copy, room(run->file_offset, run->bytes));
  if (copy == nullptr) return false;
  sum.AddCopying(memory, *run, order.first_block, copy);
  return true;
}

}  // namespace

Status CheckOpened(const WriteJob& job, const Status& opened) {
  return opened.ok() && job.once_open ? job.once_open() : opened;
}

void ReportProgress(const WriteJob& job, int32_t shard, const Box& part) {
  if (!job.progress) return;
  job.progress(NumElements(part.shape) *
               IoElementSize(job.shards[shard].dtype));
}

Status WriteIndependently(const WriteJob& job, WriteCounts& counts) {
  if (job.meanwhile) BELAY_RETURN_IF_ERROR(job.meanwhile());
  if (job.writes.orders.empty()) return absl::OkStatus();
  BELAY_ASSIGN_OR_RETURN(PosixFile file,
                         PosixFile::Open(job.path, ModeOf(job)));
  BELAY_RETURN_IF_ERROR(CheckOpened(job, absl::OkStatus()));
  PartWriter writer(file, job);
  BELAY_RETURN_IF_ERROR(
      HandOverParts(job, kWriteTileBytes,
                    std::bind_front(&PartWriter::Write, &writer), counts));
  counts.bytes += job.writes.bytes;
  counts.io_calls += file.write_calls();
  writer.stripes().AddTo(counts.stripes);
  return file.Close();
}

Status HandOverParts(const WriteJob& job, int64_t tile_bytes,
                     const PartSink& sink, WriteCounts& counts,
                     const PartRoom& room) {
  JoinedSegments<const std::byte> segments(sink);
  Checksummer sum(job.registers);
  Staging staging;
  const auto hand_over_tile = [&](const WriteOrder& order, const Box& tile,
                                  const ShardMemory& memory) -> Status {
    BELAY_ASSIGN_OR_RETURN(const bool is_copied,
                           CopyOneRun(memory, tile, order, room, sum));
    if (is_copied) {
      ReportProgress(job, order.shard, tile);
      return absl::OkStatus();
    }
    sum.Add(memory, tile, order.first_block);
    ForEachSegment(memory, tile, order.extent,
                   [&](char* data, int64_t offset, int64_t bytes) {
                     segments.Add(std::as_bytes(std::span(data, bytes)),
                                  offset);
                   });
    const Status taken = segments.Flush();
    if (taken.ok()) ReportProgress(job, order.shard, tile);
    return taken;
  };
  BELAY_RETURN_IF_ERROR(
      ForEachStagedTile(job, tile_bytes, staging, hand_over_tile));
  counts.staged_bytes = std::max(counts.staged_bytes, staging.most_bytes());
  return absl::OkStatus();
}

Status NotWhatWasWritten(const std::string& path, int64_t offset,
                         int64_t bytes) {
  return absl::DataLossError(absl::StrFormat(
      "read back \"%s\": %d bytes at offset %d are not what was written", path,
      bytes, offset));
}

Status ReadBack(const WriteJob& job) {
  if (job.writes.orders.empty()) return absl::OkStatus();
  BELAY_ASSIGN_OR_RETURN(PosixFile file,
                         PosixFile::Open(job.path, PosixFile::Mode::kRead));
  Staging staging;
  Staging room;
  const auto compare = [&](std::string_view key, const char* data,
                           int64_t offset, int64_t bytes) -> Status {
    BELAY_RETURN_IF_ERROR(room.Start(bytes, key, offset));
    char* const found = room.Take(bytes);
    BELAY_RETURN_IF_ERROR(file.PreadAll(offset, found, bytes));
    if (std::memcmp(found, data, bytes) == 0) return absl::OkStatus();
    return NotWhatWasWritten(job.path, offset, bytes);
  };
  const auto compare_tile = [&](const WriteOrder& order, const Box& tile,
                                const ShardMemory& memory) {
    Status status;
    ForEachSegment(memory, tile, order.extent,
                   [&](const char* data, int64_t offset, int64_t bytes) {
                     if (!status.ok()) return;
                     status = compare(job.shards[order.shard].key, data, offset,
                                      bytes);
                   });
    return status;
  };
  BELAY_RETURN_IF_ERROR(
      ForEachStagedTile(job, kWriteTileBytes, staging, compare_tile));
  return file.Close();
}

}  // namespace belay
