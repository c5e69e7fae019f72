// Transfers: the bytes of one rank's orders go into a data file.
//
// In:  the rank's shards and orders with absolute offsets, and a file whose
//      skeleton exists. Out: the bytes in the file, checksum registers, counts.
// Four ways, one result: the same file.

#ifndef BELAY_STORAGE_TRANSFER_H_
#define BELAY_STORAGE_TRANSFER_H_

#include <cstdint>
#include <vector>

#include "belay/extend/shard.h"
#include "belay/options.h"
#include "belay/status.h"
#include "core/agreed.h"
#include "core/element_conversion.h"
#include "hdf5/file.h"
#include "mpi/collective.h"
#include "mpi/mpi_file.h"
#include "plan/stored_values.h"
#include "storage/file_system.h"
#include "storage/posix_file.h"

namespace belay {

// Less would cut a file into slivers.
inline constexpr int64_t kLeastGatherMemory = int64_t{1} << 20;

// The part of one rank in one file. Borrows everything.
struct WriteJob {
  const std::vector<Shard>& shards;
  const RankWrites& writes;                 // into this file, extents in it
  std::string path;                         // of the data file
  std::span<const StoredForm> forms = {};   // of the shards; empty: their own
  std::span<ConversionLosses> losses = {};  // of the shards; empty: not counted
  std::span<uint32_t> registers;  // of all blocks; empty: no checksums
  bool durable = true;
  bool is_creator = false;
  // If a transfer syncs, this rank does it for its node.
  bool is_syncer = true;
  // More ranks of this node share the file than the node has cores.
  bool is_crowded = false;
  // Runs as soon as this rank has opened the file: nothing is written if it
  // fails. May be empty.
  std::function<Status()> once_open = nullptr;
  // Runs once the file is open and before the first byte is written: work of
  // this rank that the others need not wait for. May be empty.
  std::function<Status()> meanwhile;
  // Is told of the program's bytes as they are handed over. May be empty.
  std::function<void(int64_t)> progress;
  // For kCollective and kTwoPhase, the same on all ranks: the number of rounds;
  // for kCollective also the mean length of a contiguous run in the file, and
  // the caller's hints.
  int64_t rounds = 0;
  // For kTwoPhase, the same on all ranks: the memory that it may take, of which
  // kLeastGatherMemory is the least.
  int64_t memory = int64_t{256} << 20;
  int64_t mean_run_bytes = 0;
  std::map<std::string, std::string> hints;
  // The stripes of the file: kTwoPhase cuts it at their borders. Same on all
  // ranks.
  Striping striping = {};
  // For kHdf5: the datasets of the file and the calls that each needs.
  const std::vector<h5::DatasetSpec>* datasets = nullptr;
  const std::vector<int32_t>* calls = nullptr;
  const std::vector<Shape>* corners = nullptr;  // of the datasets' boxes
  bool filtered = false;  // write those with filters, not the others
};

inline PosixFile::Mode ChooseMode(const WriteJob& job) {
  return job.is_crowded ? PosixFile::Mode::kWriteBesideMany
                        : PosixFile::Mode::kWriteBeside;
}

// Calls `job.once_open` if the file was opened, as `opened` says. Returns the
// first error.
Status CheckOpened(const WriteJob& job, const Status& opened);

// Tells `job.progress` of a part of a shard.
void ReportProgress(const WriteJob& job, int32_t shard, const Box& part);

struct WriteCounts {
  int64_t bytes = 0;
  int64_t io_calls = 0;
  int64_t collective_io = 0;
  int64_t staged_bytes = 0;    // the most at once
  int64_t gathered_bytes = 0;  // of kTwoPhase, with its lists; the most at once
  StripeCounts stripes;        // of positional writes and kTwoPhase
};

// Takes parts that follow each other in a file from `offset` on; they are the
// caller's until it returns.
using PartSink =
    std::function<Status(int64_t offset, int64_t bytes,
                         std::span<const std::span<const std::byte>> parts)>;

// Returns where a part of a file is to be copied; null if there is no room.
using PartRoom = std::function<StatusOr<char*>(int64_t offset, int64_t bytes)>;

// Hands all bytes of a job, as they are stored, to `sink` instead of to the
// file, in tiles of `tile_bytes`, and counts them for the checksums. A tile
// that is one run is copied to `room` instead, where there is some.
Status HandOverParts(const WriteJob& job, int64_t tile_bytes,
                     const PartSink& sink, WriteCounts& counts,
                     const PartRoom& room = nullptr);

// Writes by plain positional writes. Syncs nothing.
Status WriteIndependently(const WriteJob& job, WriteCounts& counts);

// Sends runs to the ranks that write their part of the file, some MiB of each
// rank at a time, and writes what touches in one call. What a rank has staged
// and gathered takes at most `job.memory` together. Bytes between runs are
// not touched. `context` has the ranks of the file, also those that have
// nothing for it. Collective; agreed. Syncs nothing.
Agreed<> WriteInTwoPhases(CommContext& context, const WriteJob& job,
                          WriteCounts& counts);

// Writes by one collective MPI-IO call per round. `context` has the ranks of
// the file, also those that write nothing to it. Sets `verdict` to what was
// judged of the MPI-IO stack; if that is not sound nothing is written and the
// result is OK. Collective; agreed.
Agreed<> WriteCollectively(CommContext& context, const WriteJob& job,
                           MpiIoVerdict& verdict, WriteCounts& counts);

// Writes by collective H5Dwrite calls, which go through MPI-IO too: `verdict`
// as above. `context` has the ranks of the file. Collective; agreed. Chunks
// with filters get their room first as if they did not shrink.
Agreed<> WriteWithHdf5(CommContext& context, const WriteJob& job,
                       MpiIoVerdict& verdict, WriteCounts& counts);

// Returns the error of bytes that are not in the file as they were written.
Status NotWhatWasWritten(const std::string& path, int64_t offset,
                         int64_t bytes);

// Reads back what this rank wrote and compares it with memory.
// Errors: DataLoss - they differ; names the file and the offset.
Status ReadBack(const WriteJob& job);

// Compares datasets with filters likewise.
// Errors: DataLoss - they differ; names the file, the dataset and the box.
Status ReadBackFiltered(const WriteJob& job);

// Below this mean run length, gathering runs before writing them (in two
// phases) is faster than writing each where it is; above, slower.
inline constexpr int64_t kTwoPhaseRunBytes = int64_t{8} << 10;

// File domains: which rank writes which part of a portion of a file.
//
// In:  the segments that each rank has of the portion. Out: where the domain of
//      each rank begins. A domain weighs at most about twice the mean: bytes,
//      and memory for the place of each segment.

using Segments = std::vector<IoSegment>;

// The memory that a segment takes beside its bytes, at its sender and at its
// receiver: its place in a message, and entries of lists that grow.
inline constexpr int64_t kSegmentWeight = 96;

// Domains begin at multiples of this, whatever the file is cut into.
inline constexpr int64_t kDomainAlignment = int64_t{4} << 10;

// The rules for the borders of domains.
struct DomainBorders {
  // At multiples of this, which is one of kDomainAlignment.
  int64_t unit = kDomainAlignment;
  // Only a unit that weighs more than this, and more than the mean of a domain,
  // is cut.
  int64_t most_weight = 0;
};

void SortByOffset(Segments& segments);

// Adds the weights of ascending segments to those of the ranges in which they
// lie. Range i is [edges[i], edges[i + 1]); all segments lie in one.
void AddWeights(const Segments& segments, const std::vector<int64_t>& edges,
                std::vector<int64_t>& weights);

// Returns the unit for a file whose stripes have `stripe` bytes (0: none): the
// least multiple of them that has a MiB, or one stripe where that is more than
// `most_weight`.
int64_t DomainUnit(int64_t stripe, int64_t most_weight);

// Cuts the bytes [begin, end) of a file into one domain per rank. Returns where
// each begins, and the end. Ranges are counted first, and those that weigh more
// than the mean of a domain again in smaller parts, as pieces of a portion may
// lie far apart. Where there are fewer domains than ranks, the ranks that get
// one lie evenly among the others, and so on many nodes. Collective; agreed.
// Same on all ranks: begin, end, borders.
Agreed<std::vector<int64_t>> CutIntoDomains(CommContext& context, int64_t begin,
                                            int64_t end, const Segments& mine,
                                            const DomainBorders& borders = {});

}  // namespace belay

#endif  // BELAY_STORAGE_TRANSFER_H_
