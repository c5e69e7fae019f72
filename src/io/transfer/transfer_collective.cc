#include <algorithm>
#include <utility>

#include "base/status_macros.h"
#include "io/files/posix_file.h"
#include "io/transfer/staging.h"
#include "io/transfer/transfer.h"
#include "mpi/mpi_file.h"
#include "plan/shard_memory.h"

namespace belay {
namespace {

// The segments of one round, ascending by file offset; sums them on the way.
StatusOr<std::vector<IoSegment>> SegmentsOf(const WriteJob& job, int64_t round,
                                            size_t& next, Checksummer& sum,
                                            Staging& staging) {
  std::vector<IoSegment> segments;
  const std::vector<WriteOrder>& orders = job.writes.orders;
  if (next == orders.size() || orders[next].round != round) return segments;
  const FormedShards formed{job.shards, job.forms, job.losses};
  BELAY_RETURN_IF_ERROR(
      StartRound(formed, std::span(orders).subspan(next), INT64_MAX, staging));
  for (; next < orders.size() && orders[next].round == round; ++next) {
    const WriteOrder& order = orders[next];
    const ShardMemory memory =
        StageForSave(formed, order.shard, order.box, staging);
    sum.Add(memory, order.box, order.first_block);
    ReportProgress(job, order.shard, order.box);
    ForEachSegment(memory, order.box, order.extent,
                   [&](char* data, int64_t offset, int64_t bytes) {
                     segments.push_back({data, offset, bytes});
                   });
  }
  const auto before = [](const IoSegment& a, const IoSegment& b) {
    return a.offset < b.offset;
  };
  // Two boxes of one rank in one dataset may interleave.
  if (!std::is_sorted(segments.begin(), segments.end(), before)) {
    std::sort(segments.begin(), segments.end(), before);
  }
  return segments;
}

// A descriptor of our own: it is open while others write, so that its fsync
// reports every failed write-back of the file.
StatusOr<PosixFile> OpenForSync(const WriteJob& job) {
  return PosixFile::Open(job.path, PosixFile::Mode::kWrite);
}

// Lets the system write to the device while the next round is prepared.
void StartWriteback(std::span<const IoSegment> segments, PosixFile& file) {
  if (segments.empty()) return;
  const int64_t begin = segments.front().offset;
  const int64_t end = segments.back().offset + segments.back().bytes;
  file.StartWriteback(begin, end - begin);
}

// Writes round by round. Ranks meet at an agreement of ours before each call
// that waits for all: there a rank that is early sleeps, inside MPI it would
// keep a core busy that the others need. Collective; agreed.
Status WriteRounds(CommContext& context, const WriteJob& job, MpiFile& file,
                   PosixFile& synced, WriteCounts& counts) {
  Status first;
  std::function<void()> meanwhile;
  if (job.meanwhile) meanwhile = [&] { first.Update(job.meanwhile()); };
  Checksummer sum(job.registers);
  Staging staging;
  size_t next = 0;
  for (int64_t round = 0; round < job.rounds; ++round) {
    context.deadline.GoOn();  // a long save is no hang
    std::vector<IoSegment> segments;
    StatusOr<std::vector<IoSegment>> found =
        SegmentsOf(job, round, next, sum, staging);
    if (found.ok()) segments = *std::move(found);
    first.Update(found.status());
    if (round > 0) {
      BELAY_RETURN_IF_AGREED(
          Agree(context, BlameFullDisk(first, job.path, job.writes.bytes)));
    }
    first.Update(file.WriteAll(segments, meanwhile));
    meanwhile = nullptr;
    if (job.durable) StartWriteback(segments, synced);
    ++counts.collective_io;
    counts.io_calls += segments.empty() ? 0 : 1;
  }
  if (first.ok()) counts.bytes += job.writes.bytes;
  counts.staged_bytes = std::max(counts.staged_bytes, staging.most_bytes());
  return Agree(context, BlameFullDisk(first, job.path, job.writes.bytes));
}

}  // namespace

std::map<std::string, std::string> MpiIoHints(
    int64_t mean_run_bytes, const std::map<std::string, std::string>& extra) {
  std::map<std::string, std::string> hints = extra;
  const bool two_phase = mean_run_bytes < kTwoPhaseRunBytes;
  hints.emplace("romio_cb_write", two_phase ? "enable" : "disable");
  // ROMIO lets one rank per node write for all; two keep more of it busy.
  if (two_phase) hints.emplace("cb_config_list", "*:2");
  // Data sieving reads, changes and writes back what other ranks own.
  hints.emplace("romio_ds_write", "disable");
  return hints;
}

Status WriteCollectively(CommContext& context, const WriteJob& job,
                         MpiIoVerdict& verdict, WriteCounts& counts) {
  StatusOr<PosixFile> synced = OpenForSync(job);
  BELAY_RETURN_IF_AGREED(Agree(context, synced.status()));
  BELAY_ASSIGN_OR_RETURN_AGREED(
      MpiFile file,
      MpiFile::OpenForWrite(context, job.path,
                            MpiIoHints(job.mean_run_bytes, job.hints)));
  StatusOr<MpiIoVerdict> judged =
      file.Judge(context, CheckOpened(job, absl::OkStatus()));
  Status status = judged.status();
  if (status.ok()) verdict = *judged;
  if (status.ok() && verdict.sound) {
    status = WriteRounds(context, job, file, *synced, counts);
  }
  status.Update(file.Close());
  status = BlameFullDisk(status, job.path, job.writes.bytes);
  BELAY_RETURN_IF_AGREED(Agree(context, status));
  if (!job.durable) return absl::OkStatus();
  // It was open before anything was written, so no error of the device can have
  // been told to MPI-IO alone.
  return Agree(context, job.is_syncer ? synced->Sync() : absl::OkStatus());
}

}  // namespace belay
