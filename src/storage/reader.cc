#include "storage/reader.h"

#include "core/strided_copy.h"
#include "core/text.h"
#include "format/paths.h"

namespace belay {

PosixFile* OpenFiles::Find(const std::string& path) {
  const auto found = std::ranges::find(known_, path, &Known::path);
  if (found == known_.end()) return nullptr;
  known_.splice(known_.begin(), known_, found);
  return &known_.front().file;
}

PosixFile* OpenFiles::Keep(const std::string& path, PosixFile file) {
  // A process may have few open.
  constexpr size_t kMostFiles = 16;
  if (known_.size() == kMostFiles) known_.pop_back();
  known_.push_front({.path = path, .file = std::move(file)});
  NoteOpened();
  return &known_.front().file;
}

void OpenFiles::Forget() {
  known_.clear();
  chunks_.Close();
  checked_.clear();
}

// --- Portion reader ---

namespace {

// More would leave the caches.
constexpr int64_t kPortionBytes = int64_t{16} << 20;
constexpr size_t kPortionSegments = size_t{1} << 17;
constexpr int64_t kTileBytes = int64_t{256} << 10;
// A portion is held by its rank, on its way there and up to twice here, and
// perhaps converted; memory that is used again has room to spare.
constexpr int64_t kTimesHeld = 6;

}  // namespace

int64_t PortionWeight(int64_t memory) {
  return std::max(kLeastGatherMemory, memory) / kTimesHeld;
}

PortionReader::PortionReader(const WriteJob& job)
    : job_(job),
      most_weight_(PortionWeight(job.memory)),
      formed_{job.shards, job.forms, job.losses},
      sum_(job.registers) {}

StatusOr<Segments> PortionReader::Next(int64_t round) {
  Segments segments;
  if (!HasMore(round)) return segments;
  BELAY_RETURN_IF_ERROR(StartRound(
      formed_, std::span(job_.writes.orders).subspan(next_order_),
      std::min(kPortionBytes + kTileBytes, most_weight_ + most_weight_ / 4),
      staging_));
  const auto weight = [&](int64_t bytes) {
    return bytes + std::ssize(segments) * kSegmentWeight;
  };
  int64_t bytes = 0;
  while (bytes < kPortionBytes && segments.size() < kPortionSegments &&
         weight(bytes) < most_weight_ && HasMore(round)) {
    bytes += AddTile(job_.writes.orders[next_order_], segments);
  }
  SortByOffset(segments);
  return segments;
}

void PortionReader::CutIntoTiles(const WriteOrder& order) {
  const int64_t element_size = StoredElementSize(formed_, order.shard);
  int64_t tile = kTileBytes;
  if (!IsEmpty(order.box)) {
    // Staged elements are dense.
    const Box held = IsStaged(formed_, order.shard)
                         ? order.box
                         : OwnMemory(formed_, order.shard).box;
    const int64_t run =
        FirstRun(order.box, held, order.extent.box).length * element_size;
    const int64_t weight = most_weight_ / 4;
    tile = std::min(tile,
                    weight - weight * kSegmentWeight / (run + kSegmentWeight));
  }
  ForEachTile(order.box, std::max<int64_t>(1, tile / element_size),
              [&](const Box& box) { tiles_.push_back(box); });
}

int64_t PortionReader::AddTile(const WriteOrder& order, Segments& segments) {
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

// --- Reader ---

namespace {

// Small enough to be summed while it is still in a core's cache.
constexpr int64_t kReadTileBytes = int64_t{512} << 10;

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
        formed_{job.shards, job.forms, job.losses},
        files_(job, counts),
        sums_(job) {}

  Status Run() {
    for (const ReadOrder& order : job_.reads.orders) {
      if (order.position < 0) BELAY_RETURN_IF_ERROR(Read(order));
    }
    BELAY_RETURN_IF_ERROR(ReadWaiting());
    counts_.staged_bytes = staging_.most_bytes();
    return files_.Close();
  }

 private:
  // An order that is small, and read in place.
  struct Waiting {
    const ReadOrder* order = nullptr;
    ShardMemory memory;
    const char* end = nullptr;  // of that memory
  };

  Status Read(const ReadOrder& order) {
    if (IsEmpty(order.box)) return absl::OkStatus();
    const int64_t size = StoredElementSize(formed_, order.shard);
    const int64_t bytes = std::min(kReadTileBytes, job_.max_bytes_in_flight);
    const int64_t all = NumElements(order.box.shape) * size;
    if (all < bytes && order.filtered < 0 && !IsStaged(formed_, order.shard)) {
      ShardMemory memory = OwnMemory(formed_, order.shard);
      if (!IsSlow(order, order.box, memory)) {
        return Wait(order, std::move(memory), all);
      }
    }
    BELAY_RETURN_IF_ERROR(ReadWaiting());
    return TryForEachTile(order.box, bytes / size, [&](const Box& tile) {
      return ReadTile(order, tile);
    });
  }

  // Small orders are read together, as long as a core's cache has them.
  Status Wait(const ReadOrder& order, ShardMemory memory, int64_t bytes) {
    const char* const end =
        memory.data + NumElements(memory.box.shape) * memory.element_size;
    const bool is_full =
        !waiting_.empty() && (waiting_.size() == kMostVectors / 2 ||
                              waiting_bytes_ + bytes > kReadTileBytes ||
                              IsAwaited(order.shard, memory.data, end));
    if (is_full) BELAY_RETURN_IF_ERROR(ReadWaiting());
    BELAY_RETURN_IF_ERROR(files_.ReadSoon(memory, order.box, order));
    const char* const begin = memory.data;
    first_ = waiting_.empty() ? begin : std::min(first_, begin);
    last_ = waiting_.empty() ? end : std::max(last_, end);
    waiting_.push_back({&order, std::move(memory), end});
    waiting_bytes_ += bytes;
    return absl::OkStatus();
  }

  // Returns whether a waiting order of another shard overlaps this memory: a
  // program may restore several values to one place, and each must be summed
  // before the next is read.
  bool IsAwaited(int32_t shard, const char* begin, const char* end) const {
    if (waiting_.back().order->shard == shard) return false;
    constexpr std::less<const char*> kIsBefore;
    if (!kIsBefore(begin, last_) || !kIsBefore(first_, end)) return false;
    return std::any_of(
        waiting_.begin(), waiting_.end(), [&](const Waiting& one) {
          return kIsBefore(begin, one.end) && kIsBefore(one.memory.data, end);
        });
  }

  Status ReadWaiting() {
    BELAY_RETURN_IF_ERROR(files_.Flush());
    for (const Waiting& one : waiting_) {
      sums_.Add(one.memory, one.order->box, one.order->first_block);
    }
    waiting_.clear();
    waiting_bytes_ = 0;
    return absl::OkStatus();
  }

  Status ReadTile(const ReadOrder& order, const Box& tile) {
    const int32_t shard = order.shard;
    ShardMemory memory = OwnMemory(formed_, shard);
    const bool is_staged = IsStaged(formed_, shard);
    if (is_staged || IsSlow(order, tile, memory)) {
      const Status status = staging_.Start(
          StoredBytes(formed_, shard, tile), job_.shards[shard].key,
          FileOffset(tile, order.extent, StoredElementSize(formed_, shard)));
      // Memory that is only slow can be read into directly.
      if (is_staged) BELAY_RETURN_IF_ERROR(status);
      if (status.ok()) memory = RoomFor(formed_, shard, tile, staging_);
    }
    BELAY_RETURN_IF_ERROR(files_.ReadInto(memory, tile, order));
    sums_.Add(memory, tile, order.first_block);
    HandOver(formed_, shard, tile, memory);
    return absl::OkStatus();
  }

  bool IsSlow(const ReadOrder& order, const Box& tile,
              const ShardMemory& memory) const {
    return job_.stages_slow_targets && order.filtered < 0 &&
           IsSlowTarget(memory, tile, order.extent);
  }

  const ReadJob& job_;
  ReadCounts& counts_;
  FormedShards formed_;
  DataFiles files_;
  ReadSums sums_;
  Staging staging_;
  std::vector<Waiting> waiting_;
  int64_t waiting_bytes_ = 0;
  const char* first_ = nullptr;  // of the memory of all that wait
  const char* last_ = nullptr;   // behind it
};

}  // namespace

std::string DataFiles::FilePath(int32_t index) const {
  return JoinPath(job_.directory, job_.file_names[index]);
}

Status DataFiles::NotThere(const Status& status) const {
  BELAY_ASSIGN_OR_RETURN(const bool sees_index,
                         Exists(JoinPath(job_.directory, IndexName())));
  // The index promises the file.
  if (sees_index) return absl::DataLossError(status.message());
  return absl::FailedPreconditionError(Cat(
      "read \"", job_.directory, "\": host \"", HostName(),
      "\" does not see what rank 0 has opened; all ranks need the same path "
      "on a shared file system"));
}

Status DataFiles::Open(int32_t index) {
  if (current_ != nullptr && index == index_) return absl::OkStatus();
  BELAY_RETURN_IF_ERROR(Flush());
  BELAY_RETURN_IF_ERROR(Close());
  const std::string path = FilePath(index);
  if (job_.open_files != nullptr) current_ = job_.open_files->Find(path);
  if (current_ == nullptr) {
    StatusOr<PosixFile> file = PosixFile::Open(path, PosixFile::Mode::kRead);
    if (absl::IsNotFound(file.status())) return NotThere(file.status());
    BELAY_RETURN_IF_ERROR(file.status());
    if (job_.open_files != nullptr) {
      current_ = job_.open_files->Keep(path, *std::move(file));
    } else {
      file_ = *std::move(file);
      current_ = &*file_;
    }
    ++counts_.files;
  }
  calls_before_ = current_->read_calls();
  index_ = index;
  return absl::OkStatus();
}

Status DataFiles::ReadInto(const ShardMemory& memory, const Box& box,
                           const ReadOrder& order) {
  if (order.filtered >= 0) {
    counts_.bytes += NumElements(box.shape) * memory.element_size;
    return filtered_.Read(FilePath(order.file), job_.filtered[order.filtered],
                          order.extent, box, memory);
  }
  BELAY_RETURN_IF_ERROR(ReadSoon(memory, box, order));
  return Flush();
}

Status DataFiles::ReadSoon(const ShardMemory& memory, const Box& box,
                           const ReadOrder& order) {
  BELAY_RETURN_IF_ERROR(Open(order.file));
  ForEachSegment(memory, box, order.extent,
                 [&](char* data, int64_t offset, int64_t bytes) {
                   segments_.Add(std::as_writable_bytes(std::span(data, bytes)),
                                 offset);
                   counts_.bytes += bytes;
                 });
  return absl::OkStatus();
}

Status DataFiles::Close() {
  own_.Close();
  counts_.io_calls += filtered_.TakeChunks();
  if (current_ == nullptr) return absl::OkStatus();
  counts_.io_calls += current_->read_calls() - calls_before_;
  current_ = nullptr;
  if (!file_) return absl::OkStatus();
  const Status status = file_->Close();
  file_.reset();
  return status;
}

void ReadSums::Add(const ShardMemory& memory, const Box& box,
                   int64_t first_block) {
  if (first_block < 0 || job_.registers.empty()) return;
  sum_.Add(memory, box, first_block);
  CountCovered(memory, box, first_block, job_.covered);
}

Status ReadAll(const ReadJob& job, ReadCounts& counts) {
  return Reading(job, counts).Run();
}

}  // namespace belay
