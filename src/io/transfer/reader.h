// Reading: the boxes of a restore go from the data files into memory.

#ifndef BELAY_IO_TRANSFER_READER_H_
#define BELAY_IO_TRANSFER_READER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "belay/arrays/shard.h"
#include "belay/status.h"
#include "bytes/element_conversion.h"
#include "io/files/posix_file.h"
#include "io/files/slow_target.h"
#include "io/transfer/filtered_reader.h"
#include "io/transfer/joined_segments.h"
#include "io/transfer/open_files.h"
#include "plan/plan.h"
#include "plan/shard_memory.h"
#include "plan/stored/stored_form.h"

namespace belay {

// What a rank reads. Borrows everything.
struct ReadJob {
  const std::vector<Shard>& shards;
  const RankReads& reads;
  std::string directory;
  const std::vector<std::string>& file_names;
  std::span<const FilteredDataset> filtered = {};  // as orders count them
  // Of all blocks of the restore; both empty: no checksums. The bytes that were
  // counted into each block's register are added to `covered`.
  std::span<uint32_t> registers;
  std::span<int64_t> covered;
  std::span<const StoredForm> forms = {};   // of the shards; empty: their own
  std::span<ConversionLosses> losses = {};  // of the shards; empty: not counted
  // The most bytes through which values are staged.
  int64_t max_bytes_in_flight = int64_t{256} << 20;
  // Whether what is slow to read in place is staged.
  bool stages_slow_targets = HasSlowTargets();
  // Keeps chunks for the next job, and stays open. Null: those of this job.
  FilteredReader* kept_chunks = nullptr;
  // The same of files without filters. Null: those of this job.
  OpenFiles* open_files = nullptr;
};

struct ReadCounts {
  int64_t bytes = 0;
  int64_t delivered_bytes = 0;  // read by another rank
  int64_t io_calls = 0;
  int64_t files = 0;
  int64_t staged_bytes = 0;  // the most at once
};

// The data files of a job, one open at a time: those who read sort by file.
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

  // Reads the part `box` of an order. Local.
  // Errors: those of ReadAll.
  Status ReadInto(const ShardMemory& memory, const Box& box,
                  const ReadOrder& order);
  // The same for one without filters, but it may be read later. Local.
  Status ReadSoon(const ShardMemory& memory, const Box& box,
                  const ReadOrder& order);
  // Reads what was to be read soon. Local.
  Status Flush() { return segments_.Flush(); }
  // Local.
  Status Close();

 private:
  Status Open(int32_t index);
  // Why a file is missing, told with `status`.
  Status NotThere(const Status& status) const;
  std::string PathOf(int32_t index) const;

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

  // Adds the part `box` unless another rank counts it. Local.
  void Add(const ShardMemory& memory, const Box& box, int64_t first_block);
  // Completes the sums. Local.
  void Flush() { sum_.Flush(); }

 private:
  const ReadJob& job_;
  Checksummer sum_;
};

// Carries out the orders that are for one shard alone, by plain positional
// reads, or through HDF5 where chunks pass filters. Local. Texts must have
// their final length. Errors: DataLoss - a file is missing or too short;
// ResourceExhausted - no memory to convert; PermissionDenied; Internal.
Status ReadAll(const ReadJob& job, ReadCounts& counts);

}  // namespace belay

#endif  // BELAY_IO_TRANSFER_READER_H_
