#include "storage/reader.h"

#include "belay/arrays/flat_buffer.h"
#include "core/strided_copy.h"
#include "core/text.h"
#include "format/paths.h"
#include "mpi/all_to_all.h"

namespace belay {

PosixFile* OpenFiles::Find(const std::string& path) {
  const auto found = std::ranges::find(known_, path, &Known::path);
  if (found == known_.end()) return nullptr;
  known_.splice(known_.begin(), known_, found);
  return &known_.front().file;
}

PosixFile* OpenFiles::Keep(const std::string& path, PosixFile file) {
  // A process may be limited to few open files.
  constexpr size_t kMaxFiles = 16;
  if (known_.size() == kMaxFiles) known_.pop_back();
  known_.push_front({.path = path, .file = std::move(file)});
  NoteOpened();
  return &known_.front().file;
}

void OpenFiles::Forget() {
  known_.clear();
  chunks_.Close();
  checked_.clear();
}

// --- Reader ---

namespace {

// The data files of a job, one open at a time: orders are sorted by file.
class DataFiles {
 public:
  // Borrows both.
  DataFiles(const ReadJob& job, ReadCounts& counts)
      : job_(job),
        counts_(counts),
        segments_(
            [this](int64_t offset, int64_t /*bytes*/,
                   std::span<const std::span<std::byte>> parts) {
              return current_->PreadParts(offset, parts);
            },
            gap_),
        filtered_(job.kept == nullptr ? own_ : job.kept->chunks()) {}
  DataFiles(const DataFiles&) = delete;
  DataFiles& operator=(const DataFiles&) = delete;

  // Reads the part `box` of an order.
  // Errors: those of ReadAll.
  Status ReadInto(const ShardMemory& memory, const Box& box,
                  const ReadOrder& order) {
    if (order.filtered >= 0) {
      counts_.bytes += NumElements(box.shape) * memory.element_size;
      return filtered_.Read(FilePath(order.file), job_.filtered[order.filtered],
                            order.extent, box, memory);
    }
    BELAY_RETURN_IF_ERROR(ReadSoon(memory, box, order));
    return Flush();
  }

  // Reads an unfiltered part, at the latest when Flush is called.
  Status ReadSoon(const ShardMemory& memory, const Box& box,
                  const ReadOrder& order) {
    BELAY_RETURN_IF_ERROR(Open(order.file));
    ForEachSegment(
        memory, box, order.extent,
        [&](char* data, int64_t offset, int64_t bytes) {
          segments_.Add(std::as_writable_bytes(std::span(data, bytes)), offset);
          counts_.bytes += bytes;
        });
    return absl::OkStatus();
  }

  Status Flush() { return segments_.Flush(); }

  Status Close() {
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

 private:
  std::string FilePath(int32_t index) const {
    return JoinPath(job_.directory, job_.file_names[index]);
  }

  Status Open(int32_t index) {
    if (current_ != nullptr && index == index_) return absl::OkStatus();
    BELAY_RETURN_IF_ERROR(Flush());
    BELAY_RETURN_IF_ERROR(Close());
    const std::string path = FilePath(index);
    if (job_.kept != nullptr) current_ = job_.kept->Find(path);
    if (current_ == nullptr) {
      StatusOr<PosixFile> file = PosixFile::Open(path, PosixFile::Mode::kRead);
      if (absl::IsNotFound(file.status())) return Missing(file.status());
      BELAY_RETURN_IF_ERROR(file.status());
      current_ = job_.kept != nullptr ? job_.kept->Keep(path, *std::move(file))
                                      : &file_.emplace(*std::move(file));
      ++counts_.files;
    }
    calls_before_ = current_->read_calls();
    index_ = index;
    return absl::OkStatus();
  }

  // Returns the error for a missing file; `status` is that of opening it.
  Status Missing(const Status& status) const {
    BELAY_ASSIGN_OR_RETURN(const bool sees_index,
                           Exists(JoinPath(job_.directory, IndexName())));
    // The index says that the file exists.
    if (sees_index) return absl::DataLossError(status.message());
    return absl::FailedPreconditionError(Cat(
        "read \"", job_.directory, "\": host \"", HostName(),
        "\" does not see what rank 0 has opened; all ranks need the same path "
        "on a shared file system"));
  }

  // The kernel reads whole pages of a file anyway.
  static constexpr size_t kMaxGapBytes = 4096;

  const ReadJob& job_;
  ReadCounts& counts_;
  std::optional<PosixFile> file_;  // unless the job keeps files open
  PosixFile* current_ = nullptr;   // the file `index_`
  int64_t calls_before_ = 0;       // of the current file
  std::array<std::byte, kMaxGapBytes> gap_;
  JoinedSegments<std::byte> segments_;
  FilteredReader own_;
  FilteredReader& filtered_;
  int32_t index_ = -1;
};

// Adds the bytes that were read to the registers of a job, if it has any.
class ReadSums {
 public:
  explicit ReadSums(const ReadJob& job) : job_(job), sum_(job.registers) {}

  // Adds the part `box` unless another rank includes it.
  void Add(const ShardMemory& memory, const Box& box, int64_t first_block) {
    if (first_block < 0 || job_.registers.empty()) return;
    sum_.Add(memory, box, first_block);
    const int64_t size = memory.element_size;
    ForEachRun(box, box, WholeBox(memory.array), [&](const ElementRun& run) {
      int64_t begin = run.b * size;
      const int64_t end = begin + run.length * size;
      while (begin < end) {
        const int64_t block = begin / kBlockBytes;
        const int64_t until = std::min(end, (block + 1) * kBlockBytes);
        job_.covered[first_block + block] += until - begin;
        begin = until;
      }
    });
  }
  // Completes the sums.
  void Flush() { sum_.Flush(); }

 private:
  const ReadJob& job_;
  Checksummer sum_;
};

// Small enough to stay in a core's cache until its checksum is computed.
constexpr int64_t kReadTileBytes = int64_t{512} << 10;

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
    counts_.staged_bytes = buffer_.most_bytes();
    return files_.Close();
  }

 private:
  // A small order that is read in place.
  struct Waiting {
    const ReadOrder* order = nullptr;
    ShardMemory memory;
    const char* end = nullptr;  // end of the shard's memory
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

  // Reads small orders together, as many as fit in a core's cache.
  Status Wait(const ReadOrder& order, ShardMemory memory, int64_t bytes) {
    const char* const end =
        memory.data + NumElements(memory.box.shape) * memory.element_size;
    const bool is_full =
        !waiting_.empty() && (waiting_.size() == kMaxVectors / 2 ||
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

  // Returns true if a waiting order of another shard overlaps this memory. A
  // program may restore several values to the same place, and each value must
  // be included in its checksum before the next is read.
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
      const Status status = buffer_.Start(
          StoredBytes(formed_, shard, tile), job_.shards[shard].key,
          FileOffset(tile, order.extent, StoredElementSize(formed_, shard)));
      // Memory that is merely slow can still be read into directly.
      if (is_staged) BELAY_RETURN_IF_ERROR(status);
      if (status.ok()) memory = RoomFor(formed_, shard, tile, buffer_);
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
  ConversionBuffer buffer_;
  std::vector<Waiting> waiting_;
  int64_t waiting_bytes_ = 0;
  const char* first_ = nullptr;  // of the memory of all waiting orders
  const char* last_ = nullptr;   // the end of that memory
};

}  // namespace

Status ReadAll(const ReadJob& job, ReadCounts& counts) {
  return Reading(job, counts).Run();
}

// --- Delivery ---

namespace {

constexpr int kTag = 1;

// The bytes [begin, end) of a stream.
struct Range {
  int64_t begin = 0;
  int64_t end = 0;
};

// Visits parts of streams, ascending by position, portion by portion. A part
// may span several portions.
template <typename Part, typename CountBytes>
class Portions {
 public:
  Portions(const std::vector<Part>& parts, CountBytes count_bytes)
      : parts_(parts), count_bytes_(count_bytes) {}

  // Calls visit(part, range) for everything in the next portion. Requires that
  // portions are passed one after the other.
  template <typename Visit>
  void ForEachIn(const Range& portion, Visit visit) {
    while (next_ < parts_.size() && parts_[next_].position < portion.end) {
      if (parts_[next_].position >= 0) open_.push_back(&parts_[next_]);
      ++next_;
    }
    std::erase_if(open_, [&](const Part* part) {
      const int64_t end = part->position + count_bytes_(*part);
      visit(*part, Range{std::max(part->position, portion.begin),
                         std::min(end, portion.end)});
      return end <= portion.end;
    });
  }

 private:
  const std::vector<Part>& parts_;
  CountBytes count_bytes_;
  size_t next_ = 0;
  std::vector<const Part*> open_;  // begun but not finished
};

// One restore on one rank.
class Delivering {
 public:
  Delivering(CommContext& context, const DeliverJob& job, ReadCounts& counts)
      : context_(context),
        job_(job),
        memory_(job.memory),
        formed_{job.reading.shards, job.reading.forms, job.reading.losses},
        node_(job.nodes.node[context.rank()]),
        slots_(SlotsOnNode(job.nodes, node_)),
        num_slots_(MostSlots(job.nodes)),
        counts_(counts),
        files_(job.reading, counts),
        sums_(job.reading) {}

  // Collective; agreed.
  Agreed<> CarryOut(const Status& mine) {
    Status status = mine;
    Portions orders(job_.reading.reads.orders, [&](const ReadOrder& order) {
      return NumElements(order.box.shape) * ElementSize(order.shard);
    });
    Portions deliveries(
        job_.reading.reads.deliveries,
        [](const Delivery& delivery) { return delivery.bytes; });
    const auto count = [](const Transit& transit) { return transit.bytes; };
    Portions sends(job_.transits.sends, count);
    Portions receives(job_.transits.receives, count);
    for (int64_t at = 0; at < job_.stream_bytes; at += job_.portion_bytes) {
      context_.deadline.Restart();  // a long restore is not a hang
      portion_ = {at, at + job_.portion_bytes};
      orders.ForEachIn(portion_, [&](const ReadOrder& order, Range range) {
        if (status.ok()) status = Read(order, range);
      });
      // A rank that failed still sends, because others wait for its messages.
      status.Update(Exchange(sends, receives));
      memory_.Sync();
      BELAY_RETURN_IF_AGREED(Agree(context_, status));
      memory_.Sync();
      deliveries.ForEachIn(portion_,
                           [&](const Delivery& delivery, Range range) {
                             Copy(delivery, range);
                           });
    }
    sums_.Flush();
    return Agree(context_, files_.Close());
  }

 private:
  int64_t ElementSize(int32_t shard) const {
    return StoredElementSize(formed_, shard);
  }

  // Returns the address of a byte of a stream in this round.
  char* At(int32_t reader, int64_t position) const {
    const int32_t carrier = Carrier(job_.nodes, reader, node_);
    const int64_t half = portion_.begin / job_.portion_bytes % 2;
    return memory_.Part(job_.nodes.place[carrier]) +
           (half * num_slots_ + slots_[reader]) * job_.portion_bytes +
           (position - portion_.begin);
  }

  // Calls visit(memory) for the boxes that hold a range of a part of a stream.
  void ForEachBox(int32_t reader, int32_t shard, const Box& part,
                  int64_t position, Range range,
                  absl::FunctionRef<void(const ShardMemory&)> visit) const {
    const int64_t size = ElementSize(shard);
    char* at = At(reader, range.begin);
    for (Box& box : BoxesOfRange(part, (range.begin - position) / size,
                                 (range.end - position) / size)) {
      const int64_t bytes = NumElements(box.shape) * size;
      visit({.data = at,
             .element_size = size,
             .box = std::move(box),
             .array = StoredArrayShape(formed_, shard)});
      at += bytes;
    }
  }

  Status Read(const ReadOrder& order, Range range) {
    Status status;
    ForEachBox(context_.rank(), order.shard, order.box, order.position, range,
               [&](const ShardMemory& memory) {
                 if (!status.ok()) return;
                 status = files_.ReadInto(memory, memory.box, order);
                 if (!status.ok()) return;
                 sums_.Add(memory, memory.box, order.first_block);
               });
    return status;
  }

  template <typename Transits>
  Status Exchange(Transits& sends, Transits& receives) {
    if (job_.nodes.ranks.size() == 1) return absl::OkStatus();
    Parcels parcels(context_, kTag);
    receives.ForEachIn(portion_, [&](const Transit& transit, Range range) {
      parcels.Receive(std::as_writable_bytes(std::span(
                          At(transit.peer, range.begin), Length(range))),
                      transit.peer);
    });
    sends.ForEachIn(portion_, [&](const Transit& transit, Range range) {
      parcels.Send(std::as_bytes(std::span(At(context_.rank(), range.begin),
                                           Length(range))),
                   transit.peer);
    });
    return parcels.Finish();
  }

  static size_t Length(Range range) {
    return static_cast<size_t>(range.end - range.begin);
  }

  // Copies the range's elements that this rank wants, converted if necessary.
  void Copy(const Delivery& delivery, Range range) {
    const int32_t shard = delivery.shard;
    const ShardMemory own = GetMemory(formed_.shards[shard]);
    ForEachBox(delivery.reader, shard, delivery.box, delivery.position, range,
               [&](const ShardMemory& memory) {
                 const std::optional<Box> part = Intersect(memory.box, own.box);
                 if (!part) return;
                 if (delivery.reader != context_.rank()) {
                   counts_.delivered_bytes +=
                       StoredBytes(formed_, shard, *part);
                 }
                 HandOver(formed_, shard, *part, memory);
               });
  }

  CommContext& context_;
  const DeliverJob& job_;
  const SharedMemory& memory_;
  FormedShards formed_;
  int32_t node_;
  std::vector<int32_t> slots_;
  int64_t num_slots_;
  ReadCounts& counts_;
  DataFiles files_;
  ReadSums sums_;
  Range portion_;
};

}  // namespace

Agreed<SharedMemory> MakeDeliveryMemory(CommContext& context,
                                        const Nodes& nodes,
                                        int64_t portion_bytes) {
  const int32_t place = nodes.place[context.rank()];
  const std::vector<int32_t>& ranks = nodes.ranks[nodes.node[context.rank()]];
  return SharedMemory::Create(context,
                              {.first = ranks[0],
                               .place = place,
                               .ranks = static_cast<int32_t>(ranks.size())},
                              2 * MostSlots(nodes) * portion_bytes);
}

Agreed<> DeliverAll(CommContext& context, const Status& mine,
                    const DeliverJob& job, ReadCounts& counts) {
  return Delivering(context, job, counts).CarryOut(mine);
}

}  // namespace belay
