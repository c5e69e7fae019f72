#include "storage/transfer.h"

#include "absl/strings/str_format.h"
#include "core/catch_exceptions.h"
#include "core/strided_copy.h"
#include "plan/save_planner.h"
#include "storage/reader.h"
#include "storage/skeleton.h"

namespace belay {
namespace {

// A stored tile stays in a core's cache between conversion, checksum and write.
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

// --- Transfer collective ---

namespace {

// The segments of one round, ascending by file offset; sums them on the way.
StatusOr<Segments> TakeSegments(const WriteJob& job, int64_t round,
                                size_t& next, Checksummer& sum,
                                Staging& staging) {
  Segments segments;
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
  SortByOffset(segments);  // two boxes of one rank may interleave
  return segments;
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
Agreed<> WriteRounds(CommContext& context, const WriteJob& job, MpiFile& file,
                     PosixFile& synced, WriteCounts& counts) {
  Status first;
  std::function<void()> meanwhile;
  if (job.meanwhile) meanwhile = [&] { first.Update(job.meanwhile()); };
  Checksummer sum(job.registers);
  Staging staging;
  size_t next = 0;
  for (int64_t round = 0; round < job.rounds; ++round) {
    context.deadline.GoOn();  // a long save is no hang
    Segments segments;
    StatusOr<Segments> found = TakeSegments(job, round, next, sum, staging);
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

Agreed<> WriteCollectively(CommContext& context, const WriteJob& job,
                           MpiIoVerdict& verdict, WriteCounts& counts) {
  // Open while others write, so that its fsync reports every failed write-back
  // of the file.
  StatusOr<PosixFile> synced =
      PosixFile::Open(job.path, PosixFile::Mode::kWrite);
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
  if (!job.durable) return {};
  return Agree(context, job.is_syncer ? synced->Sync() : absl::OkStatus());
}

// --- Transfer hdf5 ---

namespace {

// The arguments of one rank to one collective H5Dwrite.
struct Call {
  Box box;                      // counted from the dataset's corner
  const void* dense = nullptr;  // the elements, if they are dense in memory
  std::string packed;           // else a copy of them

  // Computed: a short text moves its bytes when it is moved.
  const void* data() const { return packed.empty() ? dense : packed.data(); }
};

Call PrepareCall(const ShardMemory& memory, const Box& box) {
  Call call{.box = box, .dense = nullptr, .packed = {}};
  const int64_t size = memory.element_size;
  if (CountRuns(box, memory.box, box) == 1) {
    ForEachRun(box, memory.box, box, [&](const Run& run) {
      call.dense = memory.data + run.a * size;
    });
    return call;
  }
  call.packed.resize(NumElements(box.shape) * size);
  ForEachRun(box, memory.box, box, [&](const Run& run) {
    std::copy_n(memory.data + run.a * size, run.length * size,
                call.packed.data() + run.b * size);
  });
  return call;
}

// This rank's orders, dataset by dataset.
class Orders {
 public:
  explicit Orders(const WriteJob& job)
      : job_(job),
        formed_{job.shards, job.forms, job.losses},
        sum_(job.registers) {}

  // The next order of that dataset as a call; an empty one if there is none,
  // and where there is no memory for it.
  Call Next(int32_t dataset) {
    // One empty axis: a box without axes would be the one of a scalar.
    Call call{.box = {{0}, {0}}, .dense = nullptr, .packed = {}};
    const std::vector<WriteOrder>& orders = job_.writes.orders;
    if (next_ == orders.size() || orders[next_].dataset != dataset) return call;
    const WriteOrder& order = orders[next_++];
    status_.Update(CatchBadAlloc("elements to pack", [&]() -> Status {
      BELAY_RETURN_IF_ERROR(
          staging_.Start(StagedBytes(formed_, order.shard, order.box),
                         job_.shards[order.shard].key));
      const ShardMemory memory =
          StageForSave(formed_, order.shard, order.box, staging_);
      sum_.Add(memory, order.box, order.first_block);
      ReportProgress(job_, order.shard, order.box);
      call = PrepareCall(memory, order.box);
      call.box = FromCorner(order.box, (*job_.corners)[dataset]);
      return absl::OkStatus();
    }));
    return call;
  }

  // The first failure of Next.
  const Status& status() const { return status_; }
  int64_t staged_bytes() const { return staging_.most_bytes(); }

  // Writes the remaining orders of that dataset, a text, at their places: a
  // text is one element to HDF5 and cannot be written in parts.
  Status WriteText(int32_t dataset, PosixFile& file) {
    const std::vector<WriteOrder>& orders = job_.writes.orders;
    Status status;
    for (; next_ < orders.size() && orders[next_].dataset == dataset; ++next_) {
      const WriteOrder& order = orders[next_];
      const ShardMemory memory = MemoryOf(job_.shards[order.shard]);
      sum_.Add(memory, order.box, order.first_block);
      ReportProgress(job_, order.shard, order.box);
      ForEachSegment(memory, order.box, order.extent,
                     [&](char* data, int64_t offset, int64_t bytes) {
                       status.Update(file.PwriteAll(offset, data, bytes));
                     });
    }
    return status;
  }

 private:
  const WriteJob& job_;
  FormedShards formed_;
  Checksummer sum_;
  Staging staging_;
  Status status_;
  size_t next_ = 0;
};

// One dataset: as many collective calls as any rank has orders for it.
// Collective.
Agreed<> WriteDataset(CommContext& context, const h5::Handle& file,
                      const WriteJob& job, int32_t index, Orders& orders,
                      WriteCounts& counts) {
  const h5::DatasetSpec& spec = (*job.datasets)[index];
  BELAY_ASSIGN_OR_RETURN_AGREED(
      h5::Handle dataset, AgreeOn(context, h5::OpenDataset(file, spec.path)));
  Status status;
  for (int32_t i = 0; i < (*job.calls)[index]; ++i) {
    const Call call = orders.Next(index);
    status.Update(h5::WriteHyperslabTogether(dataset, call.box,
                                             h5::TypeOf(spec), call.data()));
    ++counts.collective_io;
    counts.io_calls += call.data() == nullptr ? 0 : 1;
  }
  status.Update(orders.status());
  status = BlameFullDisk(status, job.path, job.writes.bytes);
  return Agree(context, status);
}

// Collective.
Agreed<> WriteDatasets(CommContext& context, const h5::Handle& file,
                       PosixFile& texts, const WriteJob& job,
                       WriteCounts& counts) {
  Orders orders(job);
  Status local = job.meanwhile ? job.meanwhile() : absl::OkStatus();
  for (size_t i = 0; i < job.datasets->size(); ++i) {
    const auto index = static_cast<int32_t>(i);
    if ((*job.datasets)[i].filters.empty() == job.filtered) continue;
    if ((*job.datasets)[i].dtype == DType::kString) {
      local.Update(orders.WriteText(index, texts));
      continue;
    }
    BELAY_RETURN_IF_AGREED(
        WriteDataset(context, file, job, index, orders, counts));
  }
  counts.staged_bytes = std::max(counts.staged_bytes, orders.staged_bytes());
  return Agree(context, local);
}

Status CompareOrder(const WriteJob& job, const WriteOrder& order,
                    const h5::Handle& file, Staging& staging,
                    std::string& buffer) {
  const FormedShards formed{job.shards, job.forms};
  const h5::DatasetSpec& spec = (*job.datasets)[order.dataset];
  BELAY_RETURN_IF_ERROR(
      staging.Start(StagedBytes(formed, order.shard, order.box),
                    job.shards[order.shard].key));
  const ShardMemory memory =
      StageForSave(formed, order.shard, order.box, staging);
  const Call call = PrepareCall(memory, order.box);
  buffer.resize(NumElements(order.box.shape) * memory.element_size);
  BELAY_RETURN_IF_ERROR(h5::ReadHyperslab(
      file, spec.path, h5::TypeOf(spec),
      FromCorner(order.box, (*job.corners)[order.dataset]), buffer.data()));
  if (std::memcmp(call.data(), buffer.data(), buffer.size()) == 0) {
    return absl::OkStatus();
  }
  return absl::DataLossError(absl::StrFormat(
      "read back \"%s\": box \"%s\" of dataset \"%s\" is not what was written",
      job.path, BoxText(order.box), spec.path));
}

// Opens the file for the bytes that are written past HDF5, and reserves room
// for chunks with filters: ranks must not run out of space in the middle of a
// collective write.
StatusOr<PosixFile> OpenDirectly(const WriteJob& job) {
  BELAY_ASSIGN_OR_RETURN(PosixFile file,
                         PosixFile::Open(job.path, PosixFile::Mode::kWrite));
  if (!job.filtered || !job.is_creator) return file;
  BELAY_ASSIGN_OR_RETURN(const FileStat stat, file.Stat());
  BELAY_RETURN_IF_ERROR(
      file.ReserveUnsized(stat.size + MostFilteredBytes(*job.datasets)));
  return file;
}

// Collective; agreed.
Agreed<> JudgeStack(CommContext& context, const WriteJob& job,
                    MpiIoVerdict& verdict) {
  BELAY_ASSIGN_OR_RETURN_AGREED(MpiFile probe,
                                MpiFile::OpenForWrite(context, job.path, {}));
  StatusOr<MpiIoVerdict> judged = probe.Judge(context);
  Status status = judged.status();
  if (status.ok()) verdict = *judged;
  status.Update(probe.Close());
  return Agree(context, status);
}

}  // namespace

Agreed<> WriteWithHdf5(CommContext& context, const WriteJob& job,
                       MpiIoVerdict& verdict, WriteCounts& counts) {
  BELAY_RETURN_IF_AGREED(JudgeStack(context, job, verdict));
  if (!verdict.sound) return {};
  StatusOr<PosixFile> direct = OpenDirectly(job);
  BELAY_RETURN_IF_AGREED(Agree(context, direct.status()));
  h5::Handle file;
  const Status opened =
      h5::OpenFileParallel(job.path, context.comm.raw(), MPI_INFO_NULL, file);
  std::vector<int64_t> all_open = {file.is_open() ? 1 : 0};
  const Status counted = MinAll(context, all_open);
  if (!counted.ok() || all_open[0] == 0) {
    // Closing communicates: where some ranks lack the file, all let go of it.
    return Agree(context, opened.ok() ? counted : opened);
  }
  Status status = Agree(context, CheckOpened(job, opened));
  if (status.ok()) status = WriteDatasets(context, file, *direct, job, counts);
  status.Update(file.Close());
  // All ranks have closed it when the slowest one agrees.
  BELAY_RETURN_IF_AGREED(Agree(context, status));
  if (job.filtered && job.is_creator) status = direct->ReleaseUnsized();
  if (status.ok() && job.durable && job.is_syncer) status = direct->Sync();
  if (status.ok()) counts.bytes += job.writes.bytes;
  return Agree(context, status);
}

Status ReadBackFiltered(const WriteJob& job) {
  if (job.writes.orders.empty()) return absl::OkStatus();
  BELAY_ASSIGN_OR_RETURN(h5::Handle file, h5::OpenFileReadOnly(job.path));
  Staging staging;
  std::string buffer;
  for (const WriteOrder& order : job.writes.orders) {
    BELAY_RETURN_IF_ERROR(CatchBadAlloc("elements to read back", [&] {
      return CompareOrder(job, order, file, staging, buffer);
    }));
  }
  return file.Close();
}

}  // namespace belay
