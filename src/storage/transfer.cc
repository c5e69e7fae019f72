#include "storage/transfer.h"

#include <bit>
#include <numeric>

#include "absl/strings/str_format.h"
#include "core/catch_exceptions.h"
#include "core/integers.h"
#include "core/strided_copy.h"
#include "mpi/all_to_all.h"
#include "plan/save_planner.h"
#include "storage/reader.h"
#include "storage/skeleton.h"

namespace belay {
namespace {

// A stored tile stays in a core's cache between conversion, checksum and write.
constexpr int64_t kWriteTileBytes = int64_t{512} << 10;
// Starts write-back once this many bytes are pending.
constexpr int64_t kWritebackBytes = int64_t{4} << 20;

// Writes parts of a file, and starts their write-back early.
class PartWriter {
 public:
  // Gathers writes of fewer than `least` bytes into one request to the device.
  PartWriter(PosixFile& file, const WriteJob& job,
             int64_t least = kWritebackBytes)
      : file_(file),
        write_back_(job.durable),
        least_(least),
        stripes_(job.striping) {}

  const StripeCounter& stripes() const { return stripes_; }

  Status Write(int64_t offset, int64_t bytes,
               std::span<const std::span<const std::byte>> parts) {
    BELAY_RETURN_IF_ERROR(file_.PwriteParts(offset, parts));
    stripes_.Add(offset, bytes);
    if (write_back_ && bytes >= least_) {
      file_.StartWriteback(offset, bytes);
    } else if (write_back_) {
      StartLater(offset, bytes);
    }
    return absl::OkStatus();
  }

 private:
  // Gathers small adjacent writes into one request.
  void StartLater(int64_t offset, int64_t bytes) {
    if (offset != waiting_until_) waiting_from_ = offset;
    waiting_until_ = offset + bytes;
    if (waiting_until_ - waiting_from_ < least_) return;
    file_.StartWriteback(waiting_from_, waiting_until_ - waiting_from_);
    waiting_from_ = waiting_until_;
  }

  PosixFile& file_;
  bool write_back_;
  int64_t least_;
  StripeCounter stripes_;
  int64_t waiting_from_ = -1;
  int64_t waiting_until_ = -1;
};

// Cuts the orders into tiles. Calls `visit` with each tile and the memory that
// holds it in its stored form, until `visit` fails.
Status ForEachStagedTile(
    const WriteJob& job, int64_t tile_bytes, ConversionBuffer& staging,
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

// Copies and sums a tile in one pass, if it is one run and there is room for
// it.
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
                         PosixFile::Open(job.path, ChooseMode(job)));
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
  ConversionBuffer staging;
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
  ConversionBuffer staging;
  ConversionBuffer room;
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

// --- Portions of orders ---

namespace {

// Limits of a portion, and of the tiles into which its orders are cut.
struct PortionLimits {
  int64_t bytes = INT64_MAX;
  size_t segments = SIZE_MAX;
  int64_t weight = INT64_MAX;
  int64_t tile_bytes = INT64_MAX;
  int64_t staged_bytes = INT64_MAX;
};

// Returns the target weight of one rank's portion for a budget of `memory`
// bytes; portions may exceed it by a quarter.
int64_t PortionWeight(int64_t memory) {
  // A portion is held once by its rank, once as messages, and up to twice by
  // the receiver; it may also be converted. Reused memory is larger than
  // needed.
  constexpr int64_t kTimesHeld = 6;
  return std::max(kLeastGatherMemory, memory) / kTimesHeld;
}

PortionLimits LimitPortions(int64_t memory) {
  // A larger portion would not fit in the caches.
  constexpr int64_t kPortionBytes = int64_t{16} << 20;
  constexpr int64_t kTileBytes = int64_t{256} << 10;
  const int64_t weight = PortionWeight(memory);
  return {.bytes = kPortionBytes,
          .segments = size_t{1} << 17,
          .weight = weight,
          .tile_bytes = kTileBytes,
          .staged_bytes =
              std::min(kPortionBytes + kTileBytes, weight + weight / 4)};
}

// Returns the orders of a rank portion by portion, or round by round without
// limits, and includes them in the checksums.
class PortionReader {
 public:
  explicit PortionReader(const WriteJob& job, const PortionLimits& limits = {})
      : job_(job),
        limits_(limits),
        formed_{job.shards, job.forms, job.losses},
        sum_(job.registers) {}

  bool HasMore(int64_t round) const {
    const std::vector<WriteOrder>& orders = job_.writes.orders;
    return next_order_ < orders.size() && orders[next_order_].round == round;
  }

  // Returns the next segments of a round, ascending by offset. They exceed the
  // weight limit by at most a quarter.
  StatusOr<Segments> Next(int64_t round) {
    Segments segments;
    if (!HasMore(round)) return segments;
    BELAY_RETURN_IF_ERROR(
        StartRound(formed_, std::span(job_.writes.orders).subspan(next_order_),
                   limits_.staged_bytes, staging_));
    const auto weight = [&](int64_t bytes) {
      return bytes + std::ssize(segments) * kSegmentWeight;
    };
    int64_t bytes = 0;
    while (bytes < limits_.bytes && segments.size() < limits_.segments &&
           weight(bytes) < limits_.weight && HasMore(round)) {
      bytes += AddTile(job_.writes.orders[next_order_], segments);
    }
    SortByOffset(segments);  // two boxes of one rank may interleave
    return segments;
  }

  // The peak number of bytes staged.
  int64_t staged_bytes() const { return staging_.most_bytes(); }

 private:
  // Cuts an order into tiles that each weigh a small part of a portion.
  void CutIntoTiles(const WriteOrder& order) {
    const int64_t element_size = StoredElementSize(formed_, order.shard);
    int64_t tile = limits_.tile_bytes;
    if (!IsEmpty(order.box) && limits_.weight < INT64_MAX) {
      // Staged elements are dense.
      const Box held = IsStaged(formed_, order.shard)
                           ? order.box
                           : OwnMemory(formed_, order.shard).box;
      const int64_t run =
          FirstRun(order.box, held, order.extent.box).length * element_size;
      const int64_t weight = limits_.weight / 4;
      tile = std::min(
          tile, weight - weight * kSegmentWeight / (run + kSegmentWeight));
    }
    ForEachTile(order.box, std::max<int64_t>(1, tile / element_size),
                [&](const Box& box) { tiles_.push_back(box); });
  }

  // Adds the next tile of an order; returns its size in bytes.
  int64_t AddTile(const WriteOrder& order, Segments& segments) {
    if (tiles_.empty()) CutIntoTiles(order);
    int64_t bytes = 0;
    if (!tiles_.empty()) {
      const Box& tile = tiles_[next_tile_++];
      const ShardMemory memory =
          StageForSave(formed_, order.shard, tile, staging_);
      sum_.Add(memory, tile, order.first_block);
      ReportProgress(job_, order.shard, tile);
      ForEachSegment(memory, tile, order.extent,
                     [&](char* data, int64_t offset, int64_t length) {
                       segments.push_back({data, offset, length});
                       bytes += length;
                     });
    }
    if (next_tile_ == tiles_.size()) {
      ++next_order_;
      tiles_.clear();
      next_tile_ = 0;
    }
    return bytes;
  }

  const WriteJob& job_;
  const PortionLimits limits_;
  FormedShards formed_;
  Checksummer sum_;
  ConversionBuffer staging_;
  size_t next_order_ = 0;
  std::vector<Box> tiles_;  // of the next order
  size_t next_tile_ = 0;
};

}  // namespace

// --- Transfer collective ---

namespace {

// Lets the system write to the device while the next round is prepared.
void StartWriteback(std::span<const IoSegment> segments, PosixFile& file) {
  if (segments.empty()) return;
  const int64_t begin = segments.front().offset;
  const int64_t end = segments.back().offset + segments.back().bytes;
  file.StartWriteback(begin, end - begin);
}

// Writes round by round. All ranks agree before each call that waits for all of
// them: an early rank sleeps in our agreement, whereas inside MPI it would
// occupy a core that other ranks need. Collective; agreed.
Agreed<> WriteRounds(CommContext& context, const WriteJob& job, MpiFile& file,
                     PosixFile& synced, WriteCounts& counts) {
  Status first;
  std::function<void()> meanwhile;
  if (job.meanwhile) meanwhile = [&] { first.Update(job.meanwhile()); };
  PortionReader portions(job);
  for (int64_t round = 0; round < job.rounds; ++round) {
    context.deadline.Restart();  // a long save is not a hang
    StatusOr<Segments> found = portions.Next(round);
    first.Update(found.status());
    const Segments segments = std::move(found).value_or(Segments());
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
  counts.staged_bytes = std::max(counts.staged_bytes, portions.staged_bytes());
  return Agree(context, BlameFullDisk(first, job.path, job.writes.bytes));
}

// Returns the MPI-IO hints for runs of that mean length, plus `extra`.
std::map<std::string, std::string> MpiIoHints(
    int64_t mean_run_bytes, const std::map<std::string, std::string>& extra) {
  std::map<std::string, std::string> hints = extra;
  const bool two_phase = mean_run_bytes < kTwoPhaseRunBytes;
  hints.emplace("romio_cb_write", two_phase ? "enable" : "disable");
  // By default, ROMIO lets one rank per node write for all; two ranks keep the
  // node busier.
  if (two_phase) hints.emplace("cb_config_list", "*:2");
  // Data sieving reads, modifies and writes back bytes that other ranks own.
  hints.emplace("romio_ds_write", "disable");
  return hints;
}

}  // namespace

Agreed<> WriteCollectively(CommContext& context, const WriteJob& job,
                           MpiIoVerdict& verdict, WriteCounts& counts) {
  // Opened before other ranks write, so that its fsync reports every failed
  // write-back of the file.
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
  Box box;                      // relative to the dataset's corner
  const void* dense = nullptr;  // the elements, if they are dense in memory
  std::string packed;           // otherwise a copy of them

  // Not stored: moving a short std::string moves its bytes.
  const void* data() const { return packed.empty() ? dense : packed.data(); }
};

Call PrepareCall(const ShardMemory& memory, const Box& box) {
  Call call{.box = box, .dense = nullptr, .packed = {}};
  const int64_t size = memory.element_size;
  if (CountRuns(box, memory.box, box) == 1) {
    ForEachRun(box, memory.box, box, [&](const ElementRun& run) {
      call.dense = memory.data + run.a * size;
    });
    return call;
  }
  call.packed.resize(NumElements(box.shape) * size);
  ForEachRun(box, memory.box, box, [&](const ElementRun& run) {
    std::copy_n(memory.data + run.a * size, run.length * size,
                call.packed.data() + run.b * size);
  });
  return call;
}

// Iterates over this rank's orders, dataset by dataset.
class Orders {
 public:
  explicit Orders(const WriteJob& job)
      : job_(job),
        formed_{job.shards, job.forms, job.losses},
        sum_(job.registers) {}

  // Returns the next order of that dataset as a call. The call is empty if
  // there is none, or no memory for it.
  Call Next(int32_t dataset) {
    // One empty axis: a box without axes would be that of a scalar.
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

  // Writes the remaining orders of that dataset, a text, directly at their
  // offsets: for HDF5 a text is one element, which cannot be written in parts.
  Status WriteText(int32_t dataset, PosixFile& file) {
    const std::vector<WriteOrder>& orders = job_.writes.orders;
    Status status;
    for (; next_ < orders.size() && orders[next_].dataset == dataset; ++next_) {
      const WriteOrder& order = orders[next_];
      const ShardMemory memory = GetMemory(job_.shards[order.shard]);
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
  ConversionBuffer staging_;
  Status status_;
  size_t next_ = 0;
};

// Writes one dataset, with as many collective calls as the rank with the most
// orders for it needs. Collective.
Agreed<> WriteDataset(CommContext& context, const h5::Handle& file,
                      const WriteJob& job, int32_t index, Orders& orders,
                      WriteCounts& counts) {
  const h5::DatasetSpec& spec = (*job.datasets)[index];
  BELAY_ASSIGN_OR_RETURN_AGREED(
      h5::Handle dataset, AgreeOn(context, h5::OpenDataset(file, spec.path)));
  Status status;
  for (int32_t i = 0; i < (*job.calls)[index]; ++i) {
    const Call call = orders.Next(index);
    status.Update(h5::WriteHyperslabTogether(
        dataset, call.box, h5::GetElementType(spec), call.data()));
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
                    const h5::Handle& file, ConversionBuffer& staging,
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
      file, spec.path, h5::GetElementType(spec),
      FromCorner(order.box, (*job.corners)[order.dataset]), buffer.data()));
  if (std::memcmp(call.data(), buffer.data(), buffer.size()) == 0) {
    return absl::OkStatus();
  }
  return absl::DataLossError(absl::StrFormat(
      "read back \"%s\": box \"%s\" of dataset \"%s\" is not what was written",
      job.path, BoxText(order.box), spec.path));
}

// Opens the file for the bytes written without HDF5. Reserves space for
// filtered chunks, since ranks must not run out of space in the middle of a
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
    // Closing communicates: if some ranks could not open the file, all ranks
    // abandon the handle.
    return Agree(context, opened.ok() ? counted : opened);
  }
  Status status = Agree(context, CheckOpened(job, opened));
  if (status.ok()) status = WriteDatasets(context, file, *direct, job, counts);
  status.Update(file.Close());
  // Once all ranks agree, every rank has closed the file.
  BELAY_RETURN_IF_AGREED(Agree(context, status));
  if (job.filtered && job.is_creator) status = direct->ReleaseUnsized();
  if (status.ok() && job.durable && job.is_syncer) status = direct->Sync();
  if (status.ok()) counts.bytes += job.writes.bytes;
  return Agree(context, status);
}

Status ReadBackFiltered(const WriteJob& job) {
  if (job.writes.orders.empty()) return absl::OkStatus();
  BELAY_ASSIGN_OR_RETURN(h5::Handle file, h5::OpenFileReadOnly(job.path));
  ConversionBuffer staging;
  std::string buffer;
  for (const WriteOrder& order : job.writes.orders) {
    BELAY_RETURN_IF_ERROR(CatchBadAlloc("elements to read back", [&] {
      return CompareOrder(job, order, file, staging, buffer);
    }));
  }
  return file.Close();
}

namespace {

// The number of ranges weighed at a time.
constexpr int64_t kRangesPerRank = 64;
constexpr int64_t kMaxRanges = 4096;
// Smaller domains would cost more requests than they save.
constexpr int64_t kLeastDomain = int64_t{1} << 20;

int64_t PowerOfTwoFrom(int64_t least) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(least)));
}

// Returns ranges of equal width; the first begins at or before `begin`.
std::vector<int64_t> FirstEdges(int64_t begin, int64_t end, int ranks,
                                int64_t unit) {
  const int64_t most = std::min(kMaxRanges, kRangesPerRank * ranks);
  const int64_t least = (end - begin) / most + 1;
  const int64_t width = unit * PowerOfTwoFrom(CeilDivide(least, unit));
  std::vector<int64_t> edges;
  for (int64_t at = begin / width * width; at < end; at += width) {
    edges.push_back(at);
  }
  edges.push_back(edges.back() + width);
  return edges;
}

// Returns the unit for cutting a heavy range; 0 if it must not be cut.
int64_t PartUnit(int64_t weight, int64_t width, int64_t share,
                 const DomainBorders& borders) {
  if (weight <= share) return 0;
  if (width > borders.unit) return borders.unit;
  const bool must = weight > borders.most_weight && width > kDomainAlignment;
  return must ? kDomainAlignment : 0;
}

// Cuts the ranges that weigh more than `share`. Returns true if any of them
// could be cut.
bool CutHeavyRanges(const std::vector<int64_t>& weights, int64_t share,
                    const DomainBorders& borders, std::vector<int64_t>& edges) {
  std::vector<int64_t> units;
  int64_t heavy = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    units.push_back(
        PartUnit(weights[i], edges[i + 1] - edges[i], share, borders));
    heavy += units[i] > 0 ? 1 : 0;
  }
  if (heavy == 0) return false;
  const int64_t parts =
      PowerOfTwoFrom(std::max<int64_t>(2, kMaxRanges / 2 / heavy));
  std::vector<int64_t> finer;
  for (size_t i = 0; i < weights.size(); ++i) {
    const int64_t width = edges[i + 1] - edges[i];
    const int64_t unit = units[i];
    const int64_t step =
        unit > 0 ? std::max(unit, width / parts / unit * unit) : width;
    for (int64_t at = edges[i]; at < edges[i + 1]; at += step) {
      finer.push_back(at);
    }
  }
  finer.push_back(edges.back());
  edges = std::move(finer);
  return true;
}

// Assigns the domains that begin at `starts` to ranks, one each and evenly
// spread. The other ranks get empty domains.
std::vector<int64_t> SpreadOverRanks(const std::vector<int64_t>& starts,
                                     int64_t end, int ranks) {
  const int64_t count = std::ssize(starts);
  std::vector<int64_t> spread;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const int64_t next = (rank * count + ranks - 1) / ranks;
    spread.push_back(next < count ? starts[next] : end);
  }
  spread.push_back(end);
  return spread;
}

}  // namespace

void SortByOffset(Segments& segments) {
  const auto before = [](const IoSegment& a, const IoSegment& b) {
    return a.offset < b.offset;
  };
  if (!std::is_sorted(segments.begin(), segments.end(), before)) {
    std::sort(segments.begin(), segments.end(), before);
  }
}

void AddWeights(const Segments& segments, const std::vector<int64_t>& edges,
                std::vector<int64_t>& weights) {
  size_t range = 0;
  for (const IoSegment& segment : segments) {
    const int64_t end = segment.offset + segment.bytes;
    for (int64_t at = segment.offset; at < end;) {
      if (at >= edges[range + 1]) {
        const auto next = std::upper_bound(
            edges.begin() + static_cast<int64_t>(range) + 1, edges.end(), at);
        range = static_cast<size_t>(next - edges.begin()) - 1;
      }
      const int64_t next = std::min(end, edges[range + 1]);
      weights[range] += next - at + kSegmentWeight;
      at = next;
    }
  }
}

int64_t DomainUnit(int64_t stripe, int64_t most_weight) {
  if (stripe <= 0) return kDomainAlignment;
  const int64_t unit = CeilDivide(kLeastDomain, stripe) * stripe;
  return unit <= most_weight ? unit : stripe;
}

Agreed<std::vector<int64_t>> CutIntoDomains(CommContext& context, int64_t begin,
                                            int64_t end, const Segments& mine,
                                            const DomainBorders& borders) {
  std::vector<int64_t> edges =
      FirstEdges(begin, end, context.size(), borders.unit);
  std::vector<int64_t> weights;
  int64_t all = 0;
  do {
    weights.assign(edges.size() - 1, 0);
    AddWeights(mine, edges, weights);
    BELAY_RETURN_IF_AGREED(SumAll(context, weights));
    all = std::accumulate(weights.begin(), weights.end(), int64_t{0});
  } while (context.size() > 1 &&
           CutHeavyRanges(weights, all / context.size(), borders, edges));
  std::vector<int64_t> starts = {edges[0]};
  int64_t before = 0;
  for (size_t range = 1; range < weights.size(); ++range) {
    before += weights[range - 1];
    const auto domains = static_cast<int64_t>(starts.size());
    // Starts the next domain at the border nearest to its even share.
    if (domains < context.size() && edges[range] < end &&
        before + weights[range] / 2 >= all / context.size() * domains) {
      starts.push_back(edges[range]);
    }
  }
  return SpreadOverRanks(starts, end, context.size());
}

// --- Transfer two phase ---

namespace {

// Calls visit(rank, segment) for the part of each segment in each rank's
// domain.
template <typename Visit>
void ForEachPart(const Segments& segments, const std::vector<int64_t>& starts,
                 Visit visit) {
  int rank = 0;
  for (const IoSegment& segment : segments) {
    const auto* data = static_cast<const std::byte*>(segment.data);
    int64_t at = segment.offset;
    const int64_t end = segment.offset + segment.bytes;
    while (at < end) {
      while (at >= starts[rank + 1]) ++rank;
      const int64_t next = std::min(end, starts[rank + 1]);
      visit(rank, IoSegment{data, at, next - at});
      data += next - at;
      at = next;
    }
  }
}

// A message contains the number of segments, their places, and their bytes.
struct Place {
  int64_t offset = 0;
  int64_t bytes = 0;
};

// The message to one rank, and the position of its next place and byte.
struct Message {
  int64_t count = 0;
  int64_t bytes = 0;
  std::byte* next_place = nullptr;
  std::byte* next_byte = nullptr;

  int64_t size() const {
    return count == 0 ? 0
                      : static_cast<int64_t>(sizeof(count)) +
                            count * static_cast<int64_t>(sizeof(Place)) + bytes;
  }
};

// Packs the segments in other ranks' domains into `memory`, and adds those in
// this rank's domain to `kept`. Returns one message per rank.
std::vector<std::span<const std::byte>> Pack(const CommContext& context,
                                             const Segments& segments,
                                             const std::vector<int64_t>& starts,
                                             ReusableBytes& memory,
                                             Segments& kept) {
  std::vector<Message> messages(context.size());
  ForEachPart(segments, starts, [&](int rank, const IoSegment& part) {
    if (rank == context.rank()) return kept.push_back(part);
    ++messages[rank].count;
    messages[rank].bytes += part.bytes;
  });
  int64_t size = 0;
  for (const Message& message : messages) size += message.size();
  Reserve(memory, size);
  std::vector<std::span<const std::byte>> to;
  std::byte* next = memory.bytes.get();
  for (Message& message : messages) {
    to.emplace_back(next, message.size());
    if (message.count == 0) continue;
    std::memcpy(next, &message.count, sizeof(message.count));
    message.next_place = next + sizeof(message.count);
    message.next_byte = message.next_place + message.count * sizeof(Place);
    next += message.size();
  }
  ForEachPart(segments, starts, [&](int rank, const IoSegment& part) {
    if (rank == context.rank()) return;
    Message& message = messages[rank];
    const Place place{part.offset, part.bytes};
    std::memcpy(message.next_place, &place, sizeof(place));
    std::memcpy(message.next_byte, part.data, part.bytes);
    message.next_place += sizeof(place);
    message.next_byte += part.bytes;
  });
  return to;
}

// Returns the number of segments in a message.
int64_t CountSegments(std::span<const std::byte> message) {
  int64_t count = 0;
  if (!message.empty()) std::memcpy(&count, message.data(), sizeof(count));
  return count;
}

// Adds the segments in a message.
void Unpack(std::span<const std::byte> message, Segments& segments) {
  if (message.empty()) return;
  const int64_t count = CountSegments(message);
  const std::byte* next = message.data() + sizeof(count);
  const std::byte* bytes = next + count * sizeof(Place);
  for (int64_t i = 0; i < count; ++i, next += sizeof(Place)) {
    Place place;
    std::memcpy(&place, next, sizeof(place));
    segments.push_back({bytes, place.offset, place.bytes});
    bytes += place.bytes;
  }
}

// The state of one rank, kept from portion to portion.
struct TwoPhaseRun {
  const WriteJob& job;
  PartWriter writer;
  std::function<Status()> meanwhile;
  ReusableBytes sent;
  ReusableBytes received;
  int64_t gathered_bytes = 0;  // the peak, with its lists
  Status first;                // the first failure of this rank
};

// Writes ascending segments; adjacent segments in one call.
Status WriteDomain(const Segments& segments, PartWriter& writer) {
  std::vector<std::span<const std::byte>> parts;
  for (size_t i = 0; i < segments.size();) {
    const int64_t begin = segments[i].offset;
    int64_t end = begin;
    parts.clear();
    for (; i < segments.size() && segments[i].offset == end; ++i) {
      parts.emplace_back(static_cast<const std::byte*>(segments[i].data),
                         static_cast<size_t>(segments[i].bytes));
      end += segments[i].bytes;
    }
    BELAY_RETURN_IF_ERROR(writer.Write(begin, end - begin, parts));
  }
  return absl::OkStatus();
}

int64_t CountBytes(const Segments& segments) {
  return static_cast<int64_t>(segments.capacity() * sizeof(IoSegment));
}

// Writes the received segments and those that this rank kept.
Status WriteReceived(TwoPhaseRun& run, const ReceivedBytes& received,
                     const Segments& mine, Segments segments) {
  if (run.meanwhile) {
    BELAY_RETURN_IF_ERROR(std::exchange(run.meanwhile, nullptr)());
  }
  return CatchBadAlloc("the order of segments", [&] {
    int64_t count = std::ssize(segments);
    for (std::span<const std::byte> message : received.FromAll()) {
      count += CountSegments(message);
    }
    segments.reserve(count);
    for (std::span<const std::byte> message : received.FromAll()) {
      Unpack(message, segments);
    }
    SortByOffset(segments);
    run.gathered_bytes = std::max(run.gathered_bytes,
                                  run.sent.size + received.memory.size +
                                      CountBytes(mine) + CountBytes(segments));
    return WriteDomain(segments, run.writer);
  });
}

// Returns borders that match the stripes of the file, if the memory allows.
DomainBorders ChooseBorders(const WriteJob& job) {
  const int64_t most = PortionWeight(job.memory);
  return {.unit = DomainUnit(job.striping.stripe_bytes, most),
          .most_weight = most};
}

// Writes one portion of each rank, which may be empty. Sets `more` to true if
// any rank has more of this round. Collective; agreed, except that write errors
// are only in run.first.
Agreed<> WritePortion(CommContext& context, TwoPhaseRun& run,
                      const Segments& mine, bool& more) {
  std::vector<int64_t> least = {INT64_MAX, INT64_MAX, more ? 0 : 1};
  if (!mine.empty()) {
    least[0] = mine.front().offset;
    least[1] = -(mine.back().offset + mine.back().bytes);
  }
  BELAY_RETURN_IF_AGREED(MinAll(context, least));
  more = least[2] == 0;
  if (least[0] == INT64_MAX) return {};
  BELAY_ASSIGN_OR_RETURN_AGREED(const std::vector<int64_t> starts,
                                CutIntoDomains(context, least[0], -least[1],
                                               mine, ChooseBorders(run.job)));
  Segments kept;
  std::vector<std::span<const std::byte>> to;
  run.first.Update(CatchBadAlloc("pieces on their way", [&]() -> Status {
    to = Pack(context, mine, starts, run.sent, kept);
    return absl::OkStatus();
  }));
  BELAY_ASSIGN_OR_RETURN_AGREED(
      ReceivedBytes received,
      AllToAll(context,
               BlameFullDisk(run.first, run.job.path, run.job.writes.bytes), to,
               {}, std::move(run.received)));
  run.first.Update(WriteReceived(run, received, mine, std::move(kept)));
  run.received = std::move(received.memory);
  return {};
}

// Collective; agreed.
Agreed<> WriteRounds(CommContext& context, TwoPhaseRun& run,
                     WriteCounts& counts) {
  PortionReader portions(run.job, LimitPortions(run.job.memory));
  for (int64_t round = 0; round < run.job.rounds; ++round) {
    for (bool more = true; more;) {
      context.deadline.Restart();  // a long save is not a hang
      Segments mine;
      run.first.Update(CatchBadAlloc("a list of segments", [&]() -> Status {
        BELAY_ASSIGN_OR_RETURN(mine, portions.Next(round));
        return absl::OkStatus();
      }));
      more = run.first.ok() && portions.HasMore(round);
      BELAY_RETURN_IF_AGREED(WritePortion(context, run, mine, more));
    }
  }
  counts.staged_bytes = std::max(counts.staged_bytes, portions.staged_bytes());
  counts.gathered_bytes = std::max(counts.gathered_bytes, run.gathered_bytes);
  return {};
}

}  // namespace

Agreed<> WriteInTwoPhases(CommContext& context, const WriteJob& job,
                          WriteCounts& counts) {
  StatusOr<PosixFile> file = PosixFile::Open(job.path, ChooseMode(job));
  BELAY_RETURN_IF_AGREED(Agree(context, CheckOpened(job, file.status())));
  TwoPhaseRun run{.job = job,
                  .writer = PartWriter(*file, job, /*least=*/0),
                  .meanwhile = job.meanwhile};
  BELAY_RETURN_IF_AGREED(WriteRounds(context, run, counts));
  Status status = run.first;
  if (status.ok()) status = file->Close();
  if (status.ok()) {
    counts.bytes += job.writes.bytes;
    counts.io_calls += file->write_calls();
    run.writer.stripes().AddTo(counts.stripes);
  }
  return Agree(context, BlameFullDisk(status, job.path, job.writes.bytes));
}

}  // namespace belay
