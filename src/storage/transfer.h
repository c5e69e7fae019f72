// Transfers: write the bytes of one rank's orders to a data file.
//
// In:  the rank's shards and orders with absolute offsets, and a file whose
//      skeleton exists. Out: the bytes in the file, checksum registers, counts.
// Four methods, one result: the same file.

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

// With less memory, a file would be cut into slivers.
inline constexpr int64_t kLeastGatherMemory = int64_t{1} << 20;

// One rank's part of one file. Borrows everything.
struct WriteJob {
  const std::vector<Shard>& shards;
  const RankWrites& writes;                 // for this file, with offsets in it
  std::string path;                         // of the data file
  std::span<const StoredForm> forms = {};   // per shard; empty: their own
  std::span<ConversionLosses> losses = {};  // per shard; empty: not counted
  std::span<uint32_t> registers;  // of all blocks; empty: no checksums
  bool durable = true;
  bool is_creator = false;
  // True if this rank syncs for its node, in a transfer that syncs.
  bool is_syncer = true;
  // True if more ranks of this node share the file than the node has cores.
  bool is_crowded = false;
  // Called as soon as this rank has opened the file. If it fails, nothing is
  // written. May be empty.
  std::function<Status()> once_open = nullptr;
  // Called before this rank writes its first byte: work that the other ranks
  // need not wait for. May be empty.
  std::function<Status()> meanwhile;
  // Called with the number of the program's bytes just handed over. May be
  // empty.
  std::function<void(int64_t)> progress;
  // For kCollective and kTwoPhase, the same on all ranks: the number of rounds;
  // for kCollective also `mean_run_bytes`, the mean length of a contiguous run
  // in the file, and `hints`, those of the caller.
  int64_t rounds = 0;
  // For kTwoPhase, the same on all ranks: the memory that it may take; at least
  // kLeastGatherMemory is used.
  int64_t memory = int64_t{256} << 20;
  int64_t mean_run_bytes = 0;
  std::map<std::string, std::string> hints;
  // The striping of the file: kTwoPhase cuts the file at stripe borders. Same
  // on all ranks.
  Striping striping = {};
  // For kHdf5: the datasets of the file, and the number of calls for each.
  const std::vector<h5::DatasetSpec>* datasets = nullptr;
  const std::vector<int32_t>* calls = nullptr;
  const std::vector<Shape>* corners = nullptr;  // of the datasets' boxes
  bool filtered = false;  // write only filtered datasets, not the others
};

inline PosixFile::Mode ChooseMode(const WriteJob& job) {
  return job.is_crowded ? PosixFile::Mode::kWriteBesideMany
                        : PosixFile::Mode::kWriteBeside;
}

// Calls `job.once_open` if `opened` says that the file was opened. Returns the
// first error.
Status CheckOpened(const WriteJob& job, const Status& opened);

// Reports a part of a shard to `job.progress`.
void ReportProgress(const WriteJob& job, int32_t shard, const Box& part);

struct WriteCounts {
  int64_t bytes = 0;
  int64_t io_calls = 0;
  int64_t collective_io = 0;
  int64_t staged_bytes = 0;    // the peak
  int64_t gathered_bytes = 0;  // of kTwoPhase, with its lists; the peak
  StripeCounts stripes;        // of positional writes and of kTwoPhase
};

// Receives parts that are adjacent in a file, starting at `offset`. The caller
// keeps their memory unchanged until the sink returns.
using PartSink =
    std::function<Status(int64_t offset, int64_t bytes,
                         std::span<const std::span<const std::byte>> parts)>;

// Returns where to copy a part of a file; null if there is no room.
using PartRoom = std::function<StatusOr<char*>(int64_t offset, int64_t bytes)>;

// Passes all bytes of a job in their stored form to `sink` instead of to the
// file, in tiles of `tile_bytes`, and includes them in the checksums. If `room`
// has space for a tile that is one run, copies the tile there instead.
Status HandOverParts(const WriteJob& job, int64_t tile_bytes,
                     const PartSink& sink, WriteCounts& counts,
                     const PartRoom& room = nullptr);

// Writes by plain positional writes. Syncs nothing.
Status WriteIndependently(const WriteJob& job, WriteCounts& counts);

// Sends each rank's runs to the ranks that write the corresponding parts of the
// file, a few MiB per rank at a time, and writes adjacent bytes in one call. A
// rank stages and gathers at most `job.memory` in all. Does not touch bytes
// between runs. `context` contains all ranks of the file, including those that
// write nothing to it. Collective; agreed. Syncs nothing.
Agreed<> WriteInTwoPhases(CommContext& context, const WriteJob& job,
                          WriteCounts& counts);

// Writes with one collective MPI-IO call per round. `context` contains all
// ranks of the file, including those that write nothing to it. Sets `verdict`
// to the verdict on the MPI-IO stack. If that is not sound, nothing is written
// and the result is OK. Collective; agreed.
Agreed<> WriteCollectively(CommContext& context, const WriteJob& job,
                           MpiIoVerdict& verdict, WriteCounts& counts);

// Writes with collective H5Dwrite calls, which also use MPI-IO: `verdict` as
// above. `context` contains the ranks of the file. Collective; agreed. Reserves
// space for filtered chunks first, as if they did not shrink.
Agreed<> WriteWithHdf5(CommContext& context, const WriteJob& job,
                       MpiIoVerdict& verdict, WriteCounts& counts);

// Returns the error for bytes in the file that differ from what was written.
Status NotWhatWasWritten(const std::string& path, int64_t offset,
                         int64_t bytes);

// Reads back what this rank wrote and compares it with memory.
// Errors: DataLoss - they differ; names the file and the offset.
Status ReadBack(const WriteJob& job);

// Like ReadBack, for filtered datasets.
// Errors: DataLoss - they differ; names the file, the dataset and the box.
Status ReadBackFiltered(const WriteJob& job);

// Below this mean run length, gathering runs before writing them (two-phase) is
// faster than writing each in place; above it, slower.
inline constexpr int64_t kTwoPhaseRunBytes = int64_t{8} << 10;

// File domains: which rank writes which part of a portion of a file.
//
// In:  the segments that each rank has in the portion. Out: the start of each
//      rank's domain. A domain weighs at most about twice the mean. The weight
//      includes the bytes, and the memory to list each segment.

using Segments = std::vector<IoSegment>;

// The memory that a segment takes in addition to its bytes, at its sender and
// its receiver: its place in a message, and entries of growing lists.
inline constexpr int64_t kSegmentWeight = 96;

// Domains begin at multiples of this, whatever the stripes of the file.
inline constexpr int64_t kDomainAlignment = int64_t{4} << 10;

// The rules for the borders of domains.
struct DomainBorders {
  // Domains begin at multiples of this, itself a multiple of kDomainAlignment.
  int64_t unit = kDomainAlignment;
  // A unit is cut only if it weighs more than this, and more than the mean of a
  // domain.
  int64_t most_weight = 0;
};

void SortByOffset(Segments& segments);

// Adds the weight of each ascending segment to its range. Range i is [edges[i],
// edges[i + 1]); the ranges together contain all segments.
void AddWeights(const Segments& segments, const std::vector<int64_t>& edges,
                std::vector<int64_t>& weights);

// Returns the unit for a file with stripes of `stripe` bytes (0: none): the
// smallest multiple of `stripe` of at least 1 MiB, or one stripe if that
// multiple exceeds `most_weight`.
int64_t DomainUnit(int64_t stripe, int64_t most_weight);

// Cuts the bytes [begin, end) of a file into one domain per rank. Returns the
// start of each domain, and the end. First weighs coarse ranges. Then cuts and
// weighs again those heavier than the mean of a domain, because the pieces of a
// portion may be far apart. If there are fewer domains than ranks, the ranks
// with a domain are spread evenly among all ranks, and thus over many nodes.
// Collective; agreed. Same on all ranks: begin, end, borders.
Agreed<std::vector<int64_t>> CutIntoDomains(CommContext& context, int64_t begin,
                                            int64_t end, const Segments& mine,
                                            const DomainBorders& borders = {});

}  // namespace belay

#endif  // BELAY_STORAGE_TRANSFER_H_
