// Reading the boxes of a restore from data files that stay open.

#ifndef BELAY_STORAGE_READER_H_
#define BELAY_STORAGE_READER_H_

#include <array>

#include "storage/filtered_reader.h"
#include "storage/staging.h"
#include "storage/transfer.h"
#include "storage/two_phase.h"

namespace belay {

// Data files that stay open from one job to the next.

// The files of one step that were read last. For one thread at a time.
class OpenFiles {
 public:
  // Returns the open file of this path, or null.
  PosixFile* Find(const std::string& path);

  // Keeps a file of this path, and closes the one that was used least lately if
  // there are many. The result is valid until the next call.
  PosixFile* Keep(const std::string& path, PosixFile file);

  // Datasets whose chunks pass filters.
  FilteredReader& chunks() { return chunks_; }

  bool IsChecked(const std::string& path) const {
    return checked_.contains(path);
  }
  void Check(const std::string& path) { checked_.insert(path); }

  // NoteOpened records that a file was opened by its path, where another save
  // may have put its own. TakeOpened returns whether one was since its last
  // call.
  void NoteOpened() { was_opened_ = true; }
  bool TakeOpened() { return std::exchange(was_opened_, false); }

  // Closes all.
  void Forget();

 private:
  struct Known {
    std::string path;
    PosixFile file;
  };

  std::list<Known> known_;  // the one that was used last is the first
  FilteredReader chunks_;
  absl::flat_hash_set<std::string> checked_;
  bool was_opened_ = false;
};

// Segments that follow each other in a file are moved by one call, wherever
// they lie in memory. Reads skip short gaps between them by reading these, too.

// Byte: std::byte to read into, const std::byte to write from.
template <typename Byte>
class JoinedSegments {
 public:
  // Moves parts that follow each other in the file from `offset` on.
  using Move = std::function<Status(int64_t offset, int64_t bytes,
                                    std::span<const std::span<Byte>> parts)>;

  // `gap` takes what lies in gaps, none of them longer; empty: of writes. It is
  // borrowed.
  explicit JoinedSegments(Move move, std::span<Byte> gap = {})
      : move_(std::move(move)), gap_(gap) {
    parts_.reserve(kMostVectors);
  }

  // Moves what is waiting if this segment does not follow it, and keeps the
  // segment for later. Does nothing once something has failed.
  void Add(std::span<Byte> part, int64_t offset) {
    const int64_t gap = offset - (offset_ + bytes_);
    const bool is_near = 0 <= gap && gap <= std::ssize(gap_);
    const size_t needed = gap > 0 ? 2 : 1;
    if (!is_near || parts_.size() + needed > kMostVectors) {
      Flush().IgnoreError();  // told by the next one
    }
    if (parts_.empty()) {
      offset_ = offset;
    } else if (gap > 0) {
      parts_.push_back(gap_.first(static_cast<size_t>(gap)));
      bytes_ += gap;
    }
    if (!parts_.empty() &&
        parts_.back().data() + parts_.back().size() == part.data()) {
      parts_.back() = {parts_.back().data(),
                       parts_.back().size() + part.size()};
    } else {
      parts_.push_back(part);
    }
    bytes_ += std::ssize(part);
  }

  // Moves what is waiting. Returns what has gone wrong so far.
  Status Flush() {
    if (bytes_ > 0 && status_.ok()) status_ = move_(offset_, bytes_, parts_);
    parts_.clear();
    bytes_ = 0;
    return status_;
  }

 private:
  Move move_;
  std::span<Byte> gap_;
  Status status_;
  std::vector<std::span<Byte>> parts_;
  int64_t offset_ = 0;
  int64_t bytes_ = 0;
};

// Hands out the orders of a rank portion by portion, for a transfer in which
// ranks gather runs for each other, and sums them for the checksums.

// Returns the most that a portion of one rank weighs, except for a quarter
// more, if the transfer may take `memory`.
int64_t PortionWeight(int64_t memory);

class PortionReader {
 public:
  explicit PortionReader(const WriteJob& job);

  bool HasMore(int64_t round) const {
    const std::vector<WriteOrder>& orders = job_.writes.orders;
    return next_order_ < orders.size() && orders[next_order_].round == round;
  }

  // The next segments of a round, ascending by offset; they weigh a sixth of
  // job.memory and a quarter of that more at most.
  StatusOr<Segments> Next(int64_t round);

  // The most that was staged at once.
  int64_t staged_bytes() const { return staging_.most_bytes(); }

 private:
  // Cuts an order into tiles that weigh a small part of a portion.
  void CutIntoTiles(const WriteOrder& order);
  // Adds the next tile of the next order; returns its bytes.
  int64_t AddTile(const WriteOrder& order, Segments& segments);

  const WriteJob& job_;
  const int64_t most_weight_;
  FormedShards formed_;
  Checksummer sum_;
  Staging staging_;
  size_t next_order_ = 0;
  std::vector<Box> tiles_;  // of the next order
  size_t next_tile_ = 0;
};

// Reading: the boxes of a restore go from the data files into memory.

// The orders of one rank, and where it reads them. Borrows everything.
struct ReadJob {
  const std::vector<Shard>& shards;
  const RankReads& reads;
  std::string directory;
  const std::vector<std::string>& file_names;
  std::span<const FilteredDataset> filtered = {};  // as orders count them
  // By block of the restore; both empty: no checksums. `covered` counts the
  // bytes that each register includes.
  std::span<uint32_t> registers;
  std::span<int64_t> covered;
  std::span<const StoredForm> forms = {};   // of the shards; empty: their own
  std::span<ConversionLosses> losses = {};  // of the shards; empty: not counted
  // The most bytes through which values are staged.
  int64_t max_bytes_in_flight = int64_t{256} << 20;
  // Stages elements that are slow to read in place.
  bool stages_slow_targets = HasSlowTargets();
  // Keeps chunks for the next job, and stays open. Null: those of this job.
  FilteredReader* kept_chunks = nullptr;
  // Files without filters that stay open. Null: those of this job.
  OpenFiles* open_files = nullptr;
};

struct ReadCounts {
  int64_t bytes = 0;
  int64_t delivered_bytes = 0;  // read by another rank
  int64_t io_calls = 0;
  int64_t files = 0;
  int64_t staged_bytes = 0;  // the most at once
};

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
        filtered_(job.kept_chunks == nullptr ? own_ : *job.kept_chunks) {}
  DataFiles(const DataFiles&) = delete;
  DataFiles& operator=(const DataFiles&) = delete;

  // Reads the part `box` of an order.
  // Errors: those of ReadAll.
  Status ReadInto(const ShardMemory& memory, const Box& box,
                  const ReadOrder& order);
  // Reads one without filters, at the latest when Flush is called.
  Status ReadSoon(const ShardMemory& memory, const Box& box,
                  const ReadOrder& order);
  // Reads what was to be read soon.
  Status Flush() { return segments_.Flush(); }
  Status Close();

 private:
  Status Open(int32_t index);
  // Returns the error of a missing file, whose open has failed with `status`.
  Status NotThere(const Status& status) const;
  std::string FilePath(int32_t index) const;

  // A page of the file is read whole anyway.
  static constexpr size_t kMostGapBytes = 4096;

  const ReadJob& job_;
  ReadCounts& counts_;
  std::optional<PosixFile> file_;  // unless the job keeps them
  PosixFile* current_ = nullptr;   // that of `index_`
  int64_t calls_before_ = 0;       // of that one
  std::array<std::byte, kMostGapBytes> gap_;
  JoinedSegments<std::byte> segments_;
  FilteredReader own_;
  FilteredReader& filtered_;
  int32_t index_ = -1;
};

// Sums what was read into the registers of a job, if it has any.
class ReadSums {
 public:
  explicit ReadSums(const ReadJob& job) : job_(job), sum_(job.registers) {}

  // Adds the part `box` unless another rank counts it.
  void Add(const ShardMemory& memory, const Box& box, int64_t first_block);
  // Completes the sums.
  void Flush() { sum_.Flush(); }

 private:
  const ReadJob& job_;
  Checksummer sum_;
};

// Carries out the orders that are for one shard alone, by plain positional
// reads, or through HDF5 where chunks pass filters. Texts must have
// their final length. Errors: DataLoss - a file is missing or too short;
// ResourceExhausted - no memory to convert; PermissionDenied; Internal.
Status ReadAll(const ReadJob& job, ReadCounts& counts);

}  // namespace belay

#endif  // BELAY_STORAGE_READER_H_
