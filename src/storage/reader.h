// Reads the boxes of a restore from data files that stay open.

#ifndef BELAY_STORAGE_READER_H_
#define BELAY_STORAGE_READER_H_

#include <array>

#include "absl/container/flat_hash_set.h"
#include "mpi/shared_memory.h"
#include "plan/shared_targets.h"
#include "storage/conversion_buffer.h"
#include "storage/file_system.h"
#include "storage/filtered_reader.h"

namespace belay {

// The most recently read files of one step, which stay open from one job to the
// next. For one thread at a time.
class OpenFiles {
 public:
  // Caches at most `kept_bytes` of chunks, like FilteredReader.
  explicit OpenFiles(int64_t kept_bytes = 0) : chunks_(kept_bytes) {}

  // Returns the open file of this path, or null.
  PosixFile* Find(const std::string& path);

  // Stores the open file of this path. If there are many, closes the least
  // recently used one. The result is valid until the next call.
  PosixFile* Keep(const std::string& path, PosixFile file);

  // Datasets whose chunks pass filters.
  FilteredReader& chunks() { return chunks_; }

  bool IsChecked(const std::string& path) const {
    return checked_.contains(path);
  }
  void Check(const std::string& path) { checked_.insert(path); }

  // NoteOpened records that a file was opened by its path, which may by now
  // lead to a file of another save. TakeOpened returns true if that happened
  // since its last call.
  void NoteOpened() { was_opened_ = true; }
  bool TakeOpened() { return std::exchange(was_opened_, false); }

  // Closes all files and drops the chunks.
  void Forget();

 private:
  struct Known {
    std::string path;
    PosixFile file;
  };

  std::list<Known> known_;  // most recently used first
  FilteredReader chunks_;
  absl::flat_hash_set<std::string> checked_;
  bool was_opened_ = false;
};

// Reading: copies the boxes of a restore from the data files into memory.

// The orders of one rank, and the memory that they fill. Borrows everything.
struct ReadJob {
  const std::vector<Shard>& shards;
  const RankReads& reads;
  std::string directory;
  const std::vector<std::string>& file_names;
  std::span<const FilteredDataset> filtered = {};  // numbered as in the orders
  // Per block of the restore; both empty: no checksums. `covered` counts the
  // bytes included in each register.
  std::span<uint32_t> registers;
  std::span<int64_t> covered;
  std::span<const StoredForm> forms = {};   // per shard; empty: their own
  std::span<ConversionLosses> losses = {};  // per shard; empty: not counted
  // The maximum number of bytes to stage at a time.
  int64_t max_bytes_in_flight = int64_t{256} << 20;
  // Stages elements that are slow to read in place.
  bool stages_slow_targets = HasSlowTargets();
  // Files and chunks kept for the next job. Null: keeps them for this job only.
  OpenFiles* kept = nullptr;
};

struct ReadCounts {
  int64_t bytes = 0;
  int64_t delivered_bytes = 0;  // read by another rank
  int64_t io_calls = 0;
  int64_t files = 0;
  int64_t staged_bytes = 0;  // the peak
};

// Carries out the orders that serve a single shard, by plain positional reads,
// or through FilteredReader if the chunks are filtered. Texts must have their
// final length.
// Errors: DataLoss - a file is missing or too short; ResourceExhausted - no
//   memory to convert; PermissionDenied; Internal.
Status ReadAll(const ReadJob& job, ReadCounts& counts);

// Allocates the memory through which the ranks of each node deliver.
// Collective; agreed. Same on all ranks: nodes, portion_bytes.
// Errors: those of SharedMemory.
Agreed<SharedMemory> MakeDeliveryMemory(CommContext& context,
                                        const Nodes& nodes,
                                        int64_t portion_bytes);

// Borrows everything. Equal on all ranks: nodes, portion_bytes, stream_bytes.
struct DeliverJob {
  const ReadJob& reading;
  const RankTransits& transits;
  const Nodes& nodes;
  const SharedMemory& memory;  // from MakeDeliveryMemory
  int64_t portion_bytes = 0;   // a multiple of kStreamAlignment
  int64_t stream_bytes = 0;    // of the longest stream
};

// Carries out the orders that have a position in a stream, and all deliveries.
// If any rank passes an error, nothing more is read. Adds to `counts`.
// Collective; agreed.
// Errors: those of ReadAll and of messages.
Agreed<> DeliverAll(CommContext& context, const Status& mine,
                    const DeliverJob& job, ReadCounts& counts);

}  // namespace belay

#endif  // BELAY_STORAGE_READER_H_
