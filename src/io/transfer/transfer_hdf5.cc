#include <algorithm>
#include <cstring>

#include "absl/strings/str_format.h"
#include "base/catch_bad_alloc.h"
#include "base/status_macros.h"
#include "geometry/runs.h"
#include "hdf5/file.h"
#include "io/files/posix_file.h"
#include "io/index/skeleton.h"
#include "io/transfer/staging.h"
#include "io/transfer/transfer.h"
#include "plan/save/file_datasets.h"
#include "plan/shard_memory.h"

namespace belay {
namespace {

// What one rank gives to one collective H5Dwrite.
struct Call {
  Box box;                      // counted from the dataset's corner
  const void* dense = nullptr;  // the elements, if they are dense in memory
  std::string packed;           // else a copy of them

  // Not kept: the bytes of a short text move with it.
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

  // What has failed in Next.
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
Status WriteDataset(CommContext& context, const h5::Handle& file,
                    const WriteJob& job, int32_t index, Orders& orders,
                    WriteCounts& counts) {
  const h5::DatasetSpec& spec = (*job.datasets)[index];
  StatusOr<h5::Handle> dataset = h5::OpenDataset(file, spec.path);
  BELAY_RETURN_IF_AGREED(Agree(context, dataset.status()));
  Status status;
  for (int32_t i = 0; i < (*job.calls)[index]; ++i) {
    const Call call = orders.Next(index);
    status.Update(h5::WriteHyperslabTogether(*dataset, call.box,
                                             h5::TypeOf(spec), call.data()));
    ++counts.collective_io;
    counts.io_calls += call.data() == nullptr ? 0 : 1;
  }
  status.Update(orders.status());
  status = BlameFullDisk(status, job.path, job.writes.bytes);
  return Agree(context, status);
}

// Collective.
Status WriteDatasets(CommContext& context, const h5::Handle& file,
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

// Local.
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

// What is written past HDF5, and the room for chunks with filters: without it
// ranks could run out of space in the middle of a collective write. Local.
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
Status JudgeStack(CommContext& context, const WriteJob& job,
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

Status WriteWithHdf5(CommContext& context, const WriteJob& job,
                     MpiIoVerdict& verdict, WriteCounts& counts) {
  BELAY_RETURN_IF_AGREED(JudgeStack(context, job, verdict));
  if (!verdict.sound) return absl::OkStatus();
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
