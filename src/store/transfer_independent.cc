#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "geometry/runs.h"
#include "store/posix_file.h"
#include "store/shard_memory.h"
#include "store/staging.h"
#include "store/transfer.h"

namespace belay {
namespace {

// Small enough to stay in a core's cache between checksum and write.
constexpr int64_t kTileBytes = int64_t{512} << 10;
// As many as one system call takes.
constexpr size_t kMostParts = 1024;
// Write-back is started once this much is waiting.
constexpr int64_t kWritebackBytes = int64_t{4} << 20;

// Joins segments that follow each other in the file, wherever they lie in
// memory.
class SegmentWriter {
 public:
  SegmentWriter(PosixFile& file, bool write_back)
      : file_(file), write_back_(write_back) {
    parts_.reserve(kMostParts);
  }

  void Add(const char* data, int64_t offset, int64_t bytes) {
    if (offset != offset_ + bytes_ || parts_.size() == kMostParts) Flush();
    if (parts_.empty()) offset_ = offset;
    const auto part = std::as_bytes(std::span(data, bytes));
    if (!parts_.empty() &&
        parts_.back().data() + parts_.back().size() == part.data()) {
      parts_.back() = {parts_.back().data(),
                       parts_.back().size() + part.size()};
    } else {
      parts_.push_back(part);
    }
    bytes_ += bytes;
  }

  void Flush() {
    if (bytes_ > 0 && status_.ok()) Write();
    parts_.clear();
    bytes_ = 0;
  }

  const Status& status() const { return status_; }

 private:
  void Write() {
    status_ = file_.PwriteParts(offset_, parts_);
    if (write_back_ && bytes_ >= kWritebackBytes) {
      file_.StartWriteback(offset_, bytes_);
    } else if (write_back_) {
      StartLater();
    }
  }

  // Gathers small neighbouring writes into one request.
  void StartLater() {
    if (offset_ != waiting_until_) waiting_from_ = offset_;
    waiting_until_ = offset_ + bytes_;
    if (waiting_until_ - waiting_from_ < kWritebackBytes) return;
    file_.StartWriteback(waiting_from_, waiting_until_ - waiting_from_);
    waiting_from_ = waiting_until_;
  }

  PosixFile& file_;
  bool write_back_;
  Status status_;
  std::vector<std::span<const std::byte>> parts_;
  int64_t offset_ = 0;
  int64_t bytes_ = 0;
  int64_t waiting_from_ = -1;
  int64_t waiting_until_ = -1;
};

// Cuts the orders into tiles and calls `visit` with each, and with the memory
// that holds it as it is stored, until it fails.
Status ForEachStagedTile(
    const WriteJob& job, Staging& staging,
    absl::FunctionRef<Status(const WriteOrder&, const Box&, const ShardMemory&)>
        visit) {
  const FormedShards formed{job.shards, job.forms};
  Status status;
  for (const WriteOrder& order : job.writes.orders) {
    const int32_t shard = order.shard;
    const int64_t size = StoredElementSize(formed, shard);
    ForEachTile(order.box, kTileBytes / size, [&](const Box& tile) {
      if (!status.ok()) return;
      status = staging.Start(StagedBytes(formed, shard, tile),
                             job.shards[shard].key);
      if (!status.ok()) return;
      status = visit(order, tile, StageForSave(formed, shard, tile, staging));
    });
    BELAY_RETURN_IF_ERROR(status);
  }
  return absl::OkStatus();
}

}  // namespace

void ReportProgress(const WriteJob& job, int32_t shard, const Box& part) {
  if (!job.progress) return;
  job.progress(NumElements(part.shape) *
               IoElementSize(job.shards[shard].dtype));
}

Status WriteIndependently(const WriteJob& job, WriteCounts& counts) {
  if (job.meanwhile) BELAY_RETURN_IF_ERROR(job.meanwhile());
  if (job.writes.orders.empty() && !job.is_creator) return absl::OkStatus();
  BELAY_ASSIGN_OR_RETURN(PosixFile file,
                         PosixFile::Open(job.path, PosixFile::Mode::kWrite));
  SegmentWriter writer(file, job.durable);
  Checksummer sum(job.registers);
  Staging staging;
  const auto write_tile = [&](const WriteOrder& order, const Box& tile,
                              const ShardMemory& memory) {
    sum.Add(memory, tile, order.first_block);
    ForEachSegment(memory, tile, order.extent,
                   [&](char* data, int64_t offset, int64_t bytes) {
                     writer.Add(data, offset, bytes);
                   });
    writer.Flush();
    ReportProgress(job, order.shard, tile);
    return writer.status();
  };
  BELAY_RETURN_IF_ERROR(ForEachStagedTile(job, staging, write_tile));
  counts.bytes += job.writes.bytes;
  counts.io_calls += file.write_calls();
  counts.staged_bytes = std::max(counts.staged_bytes, staging.most_bytes());
  if (job.durable) BELAY_RETURN_IF_ERROR(file.Sync());
  return file.Close();
}

Status ReadBack(const WriteJob& job) {
  if (job.writes.orders.empty()) return absl::OkStatus();
  BELAY_ASSIGN_OR_RETURN(PosixFile file,
                         PosixFile::Open(job.path, PosixFile::Mode::kRead));
  std::string buffer;
  Staging staging;
  Status status;
  const auto compare = [&](const char* data, int64_t offset, int64_t bytes) {
    if (!status.ok()) return;
    buffer.resize(bytes);
    status = file.PreadAll(offset, buffer.data(), bytes);
    if (!status.ok() || std::memcmp(buffer.data(), data, bytes) == 0) return;
    status = absl::DataLossError(absl::StrFormat(
        "read back \"%s\": %d bytes at offset %d are not what was written",
        job.path, bytes, offset));
  };
  const auto compare_tile = [&](const WriteOrder& order, const Box& tile,
                                const ShardMemory& memory) {
    ForEachSegment(memory, tile, order.extent, compare);
    return status;
  };
  BELAY_RETURN_IF_ERROR(ForEachStagedTile(job, staging, compare_tile));
  return file.Close();
}

}  // namespace belay
