#include "store/reader.h"

#include <algorithm>

#include "base/checksum.h"
#include "base/status_macros.h"
#include "geometry/runs.h"
#include "store/paths.h"
#include "store/posix_file.h"
#include "store/shard_memory.h"
#include "store/staging.h"

namespace belay {
namespace {

// Small enough to be summed while it is still in a core's cache.
constexpr int64_t kTileBytes = int64_t{512} << 10;

// Adds the bytes of `box` to the blocks they lie in.
void CountCovered(const ShardMemory& memory, const Box& box,
                  int64_t first_block, std::span<int64_t> covered) {
  const int64_t size = memory.element_size;
  ForEachRun(box, box, WholeBox(memory.array), [&](const Run& run) {
    int64_t begin = run.b * size;
    const int64_t end = begin + run.length * size;
    while (begin < end) {
      const int64_t block = begin / kBlockBytes;
      const int64_t until = std::min(end, (block + 1) * kBlockBytes);
      covered[first_block + block] += until - begin;
      begin = until;
    }
  });
}

class Reading {
 public:
  Reading(const ReadJob& job, ReadCounts& counts)
      : job_(job),
        counts_(counts),
        formed_{job.shards, job.forms},
        sum_(job.registers) {}

  Status Run() {
    for (const ReadOrder& order : job_.reads.orders) {
      BELAY_RETURN_IF_ERROR(Open(order.file));
      BELAY_RETURN_IF_ERROR(Read(order));
    }
    counts_.staged_bytes = staging_.most_bytes();
    return CloseCurrent();
  }

 private:
  // Orders are sorted by file: at most one is open.
  Status Open(int32_t index) {
    if (file_ && index == index_) return absl::OkStatus();
    BELAY_RETURN_IF_ERROR(CloseCurrent());
    StatusOr<PosixFile> file =
        PosixFile::Open(JoinPath(job_.directory, job_.file_names[index]),
                        PosixFile::Mode::kRead);
    if (absl::IsNotFound(file.status())) {  // the index promises it
      return absl::DataLossError(file.status().message());
    }
    BELAY_RETURN_IF_ERROR(file.status());
    file_ = *std::move(file);
    index_ = index;
    ++counts_.files;
    return absl::OkStatus();
  }

  Status CloseCurrent() {
    if (!file_) return absl::OkStatus();
    counts_.io_calls += file_->read_calls();
    const Status status = file_->Close();
    file_.reset();
    return status;
  }

  Status Read(const ReadOrder& order) {
    const int64_t size = StoredElementSize(formed_, order.shard);
    Status status;
    ForEachTile(order.box, kTileBytes / size, [&](const Box& tile) {
      if (status.ok()) status = ReadTile(order, tile);
    });
    return status;
  }

  Status ReadTile(const ReadOrder& order, const Box& tile) {
    BELAY_RETURN_IF_ERROR(staging_.Start(
        StagedBytes(formed_, order.shard, tile), job_.shards[order.shard].key));
    const ShardMemory memory =
        StageForRestore(formed_, order.shard, tile, staging_);
    BELAY_RETURN_IF_ERROR(ReadInto(memory, tile, order.extent));
    if (order.first_block >= 0 && !job_.registers.empty()) {
      sum_.Add(memory, tile, order.first_block);
      CountCovered(memory, tile, order.first_block, job_.covered);
    }
    HandOver(formed_, order.shard, tile, memory);
    return absl::OkStatus();
  }

  Status ReadInto(const ShardMemory& memory, const Box& tile,
                  const Extent& extent) {
    Status status;
    ForEachSegment(memory, tile, extent,
                   [&](char* data, int64_t offset, int64_t bytes) {
                     if (!status.ok()) return;
                     status = file_->PreadAll(offset, data, bytes);
                     counts_.bytes += bytes;
                   });
    return status;
  }

  const ReadJob& job_;
  ReadCounts& counts_;
  FormedShards formed_;
  Checksummer sum_;
  Staging staging_;
  std::optional<PosixFile> file_;
  int32_t index_ = -1;
};

}  // namespace

Status ReadAll(const ReadJob& job, ReadCounts& counts) {
  return Reading(job, counts).Run();
}

}  // namespace belay
