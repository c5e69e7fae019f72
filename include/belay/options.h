// Options and results of Save and Restore. Plain structs; every default works.
//
// In {.overwrite = true, .durable = false} C++ wants the members in the order
// in which they stand here.

#ifndef BELAY_OPTIONS_H_
#define BELAY_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "belay/box.h"
#include "belay/dtype.h"
#include "belay/metadata.h"
#include "belay/restore_args.h"
#include "belay/save_args.h"
#include "belay/sharding_policy.h"

namespace belay {

class PlanCache;
class TypeHandlerRegistry;

// Which ranks share a data file. A sharding policy that makes several groups
// makes as many of these files. Numbers are written to disk.
enum class FileLayout : uint8_t {
  kShared = 0,   // one file; one dataset of the global shape per key
  kPerNode = 1,  // one file per shared-memory node; one dataset per piece
  kPerTask = 2,  // one file per rank; one dataset per piece
};

// How an array lies in a kShared file.
enum class ArrayLayout : uint8_t {
  // One chunk per shard where the cut is a regular grid whose pieces are not
  // contiguous in the array; contiguous otherwise.
  kAuto = 0,
  // Always contiguous and row-major: the file is the same bytes for any
  // number of ranks and any cut of the same values.
  kCanonical = 1,
};

// Who moves the bytes. All of them write the same file.
enum class Transfer : uint8_t {
  kCollective = 0,   // one collective MPI-IO call per round and file
  kIndependent = 1,  // every rank writes its own pieces; no MPI
  kHdf5 = 2,         // one collective H5Dwrite per dataset and round
  // Ranks send each other the pieces of one part of the file, and each writes
  // its part in few calls; plain MPI and positional writes, no MPI-IO.
  kTwoPhase = 3,
  // kTwoPhase where runs in the file are short, so that gathering them pays
  // (below 8 KiB in the mean), and where several nodes would write to the same
  // stripes of a shared file: more than one of four stripes of a parallel file
  // system. Else kIndependent.
  kAuto = 4,
};

// Who reads what several ranks want.
enum class ReadSharing : uint8_t {
  // kOnce where that saves reading at least 1 MiB per rank, and 256 KiB per
  // round; else, or where memory cannot be shared, kEachRank.
  kAuto = 0,
  kEachRank = 1,  // every rank reads all that it wants
  // One rank reads each byte and delivers it to the others that want it: in
  // memory that the ranks of a node share, and once to each other node. Where
  // there is no such memory, that is an error.
  kOnce = 2,
};

// What a restore does about values that do not fit.
enum class MismatchPolicy : uint8_t {
  kError = 0,    // fails, and names one or more
  kWarn = 1,     // as kCollect, with a line in RestoreResult::warnings for each
  kCollect = 2,  // lists them in the RestoreResult
  kIgnore = 3,   // says nothing of them
};

struct SaveResult;

struct SaveOptions {
  // --- What is stored ---
  FileLayout file_layout = FileLayout::kShared;
  ArrayLayout array_layout = ArrayLayout::kAuto;
  // Sorts what each rank writes into groups; `file_layout` says which of them
  // share a file. Same description and parameters on all ranks.
  ShardingPolicy sharding_policy = ShardByTask();
  // How single values are stored, by key: the first entry that matches counts,
  // and each has to match some key of some rank. With objects the keys are
  // those of the checkpoint, such as "model/w/.ATTRIBUTES/value".
  std::vector<SaveArgsFor> args = {};
  // Store f32 arrays as bf16, half the bytes and 8 bits of each mantissa,
  // unless `args` name a dtype. Restore them with allow_dtype_cast.
  bool float32_as_bfloat16 = false;
  // Replace a step that is committed already instead of refusing. The old one
  // stays until the new one is complete.
  bool overwrite = false;
  // Checksum every block, so that Restore and `belay verify` can tell damage.
  bool checksums = true;
  // Whether to refuse replicas that are not equal to the last bit; the error
  // names the key, the box and the ranks. Of a value that several ranks hold
  // each writes a part, so what is stored of unequal ones no rank has held.
  // true: every save reads all replicas once more. Unset: a save that makes a
  // plan does, which is the first of a structure, and each one without a
  // PlanCache or with a filter; those that reuse the plan compare what has at
  // most 256 bytes and samples of the rest, other samples in each save
  // (docs/performance.md says what either costs). false: nothing is compared,
  // and of maps or lists that differ those of any rank are stored. Replicas
  // that are cut in other boxes are not compared.
  std::optional<bool> check_replicas = {};

  // The handlers of values of other types; null: those of the program.
  // Borrowed.
  const TypeHandlerRegistry* handlers = nullptr;
  // Stored beside the values, for people and programs to read. Only that of
  // rank 0 counts.
  Metadata metadata = {};

  // --- How it is stored ---
  Transfer transfer = Transfer::kAuto;
  // Upper limit of the bytes that one rank hands to the transfer at a time, and
  // of the memory in which it converts them or, with kTwoPhase, gathers them
  // for others (where 1 MiB is the least). Larger pieces are cut. From 4 KiB to
  // 1 GiB. Lower it to bound MPI-IO's buffers.
  int64_t max_bytes_in_flight = int64_t{256} << 20;
  // Sync files and directories before the commit, so that a committed step
  // survives a power failure. Off only for file systems in memory.
  bool durable = true;
  // Read everything back after writing and compare it with memory. On most file
  // systems that reads the page cache, not the device.
  bool read_back = false;
  // MPI-IO hints. Each data file is created with them, by MPI-IO instead of
  // POSIX calls, for any transfer: those about striping count only then.
  // kCollective writes with them as well, added to belay's own and stronger.
  // MPI ignores what it does not know. "striping_unit" and "striping_factor"
  // also tell kAuto and kTwoPhase how a shared file is striped where the file
  // system does not. Same on all ranks.
  std::map<std::string, std::string> mpi_io_hints = {};
  // Called on rank 0 when all of the step is on disk, just before it gets its
  // name: `directory` is where it lies until then. An error, or what it throws,
  // refuses the commit, and is the error of the save on all ranks. A file that
  // it adds is not belay's, so that no manager deletes the step any more. It
  // must not communicate.
  std::function<Status(const std::string& directory, int64_t step)>
      before_commit = nullptr;
  // Called on rank 0 when the step is committed, whatever comes then. What it
  // throws goes to the log. It must not communicate.
  std::function<void(const SaveResult& result)> after_commit = nullptr;
  // Seconds that one stage (plan, reserve, write, ...) may take before the
  // job is ended with exit code 75, so that a hang does not last for ever; 0 is
  // no limit. Raise it where writing alone takes longer.
  double deadline_seconds = 600;
  // Reuses the plan and the file skeleton while the structure stays the same.
  // Borrowed, may be null. One per program is enough. A Checkpoint has one of
  // its own, and with it a manager.
  PlanCache* cache = nullptr;
};

// An array of a step, without its values.
struct StepArray {
  std::string key;
  DType dtype = DType::kU8;
  Shape shape;
  std::string fields = {};  // of structs, as of ArrayInfo

  friend bool operator==(const StepArray&, const StepArray&) = default;
};

// The step that a restore reads; equal on all ranks.
struct StoredStep {
  std::string path;
  int64_t step = 0;
  std::vector<StepArray> arrays;  // ascending by key
};

// What is wanted in another form than it is stored in is an error, unless one
// of the first two says otherwise; then RestoreResult::conversions lists it.
struct RestoreOptions {
  // Convert numbers to the dtype that is wanted: floats round to nearest even,
  // and are cut towards zero to integers; what is too large becomes infinity or
  // the largest number of the dtype. Complex numbers do not become real ones.
  bool allow_dtype_cast = false;
  // Restore arrays whose lengths differ, but not their number of axes, such as
  // a padded vocabulary: element by element at the same place. What is not
  // stored is left as it is, and what is not wanted is not read.
  bool allow_shape_mismatch = false;
  // What becomes of values of the program that are not stored, of stored ones
  // that no rank wants, and of arrays that are stored with another dtype or
  // shape than they may have. What is not restored stays as it is. Values with
  // handlers, and rows of ranks, are never mismatched: another type, and arrays
  // that a handler lists and that do not fit, are always an error. Objects have
  // a LoadStatus for the first two, which have to stay as they are here.
  MismatchPolicy missing = MismatchPolicy::kError;
  MismatchPolicy unexpected = MismatchPolicy::kIgnore;
  MismatchPolicy mismatched = MismatchPolicy::kError;
  // For the values of the program whose key an entry matches; the first one
  // that does counts. An entry that matches no key of any rank is an error.
  // With objects, keys are those that the program's objects give.
  std::vector<RestoreArgsFor> args = {};
  // Restore only the values for which this is true; null: all. What it returns
  // may differ between ranks.
  std::function<bool(std::string_view key)> selects = nullptr;
  // Called on all ranks once the step is open, and before the State is looked
  // at: where values come and go, such as the patches of an adaptive mesh, a
  // program makes those that are stored, and adds them to its State. It begins
  // with a new one, `state = {}`: a manager calls it once for each step that it
  // tries. It may communicate, and counts for deadline_seconds. An error of any
  // rank is that of the restore, on all ranks; DataLoss, NotFound and
  // Unimplemented, which speak of files, become FailedPrecondition. Null: none.
  // Not for objects, which are there before, and nothing to RestoreLater.
  std::function<Status(const StoredStep& stored)> on_open = nullptr;
  // Check the blocks that the ranks' reads cover together.
  bool checksums = true;
  // Of a file of another program every rank reads what it wants; kOnce and
  // primary_replica are refused.
  ReadSharing read_sharing = ReadSharing::kAuto;
  // Only shards with this replica number read, and deliver to all others that
  // want the same values. They must hold all that is wanted.
  std::optional<int64_t> primary_replica = {};
  // Upper limit of the memory of one rank through which values are delivered,
  // and of that in which they are staged (two pages more). From 4 KiB to 1 GiB.
  int64_t max_bytes_in_flight = int64_t{256} << 20;
  // As in SaveOptions.
  const TypeHandlerRegistry* handlers = nullptr;
  // As in SaveOptions.
  double deadline_seconds = 600;
};

// One part of the work and the time it took on this rank.
struct StageTime {
  std::string stage;
  double seconds = 0;
};

// Values of a key that were wanted in another form than they are stored in.
struct Conversion {
  std::string key;
  DType dtype = DType::kU8;  // that was wanted
  Shape shape;
  DType stored_dtype = DType::kU8;
  Shape stored_shape;

  friend bool operator==(const Conversion&, const Conversion&) = default;
};

// What a save or a restore did. Counts are sums over all ranks; the stage
// times and what is said of memory are the largest of any rank. Equal on all
// ranks.
struct TransferCounters {
  int64_t bytes = 0;            // array bytes written or read
  int64_t delivered_bytes = 0;  // that one rank read for another
  int64_t staged_bytes = 0;     // memory of a rank between values and files
  int64_t io_calls = 0;         // data reads or writes that were issued
  int64_t collective_io = 0;    // collective MPI-IO or HDF5 calls, per rank
  int64_t files = 0;            // data files that were opened, per checkpoint
  int64_t messages = 0;  // MPI collectives of a rank, agreements included
  int64_t peak_memory_bytes = 0;  // of any rank, as the system counts it
  // The most that a rank has sent to agree on the structure of a save and to
  // plan it; at most 64 in a save whose plan was reused. 0 in a restore.
  int64_t agreement_bytes = 0;
  // Of saves that put stripes of a shared file, as the file system or the hint
  // "striping_unit" has them, by kIndependent or kTwoPhase; else all 0. With
  // `stripes` equal to `stripe_writers` no two ranks wrote to the same one.
  int64_t stripes = 0;          // that got bytes; from the plan
  int64_t stripe_writers = 0;   // over all ranks, stripes that each wrote to
  int64_t stripe_requests = 0;  // writes, each counted in all its stripes
  int64_t stripe_servers = 0;   // that the stripes go to in turns; 0: unknown
  int64_t busiest_server_requests = 0;  // the most of any of them
  std::vector<StageTime> stages;
};

struct SaveResult {
  std::string path;  // the committed directory
  int64_t step = 0;
  int64_t num_arrays = 0;
  int64_t rounds = 0;
  bool plan_reused = false;
  // The transfer that was used, and why if it is not the one asked for or if
  // kAuto chose it by the stripes of files. Chunks that pass filters are always
  // written by kHdf5.
  Transfer transfer = Transfer::kCollective;
  std::string transfer_note;
  // Of the sharding policy, and of file systems that several nodes had better
  // not write to together; equal on all ranks.
  std::vector<std::string> warnings;
  TransferCounters counters;

  // Returns what was saved where, how and how long it took as one line, and one
  // more for each warning. Local.
  std::string ToString() const;
};

struct RestoreResult {
  std::string path;
  int64_t step = 0;
  int64_t num_arrays = 0;
  // Blocks compared with their checksum, and blocks of the restored arrays
  // that the reads covered only in part.
  int64_t blocks_verified = 0;
  int64_t blocks_partial = 0;
  // Ascending by key; one for each form that any rank wanted. Equal on all
  // ranks.
  std::vector<Conversion> conversions;
  // Keys that are not stored, where the options or the arguments allow that;
  // that are stored and wanted by no rank; and what is stored with another
  // dtype or shape, one for each form that any rank wanted. Each as far as the
  // options ask for it, ascending, and equal on all ranks, as the warnings.
  std::vector<std::string> missing;
  std::vector<std::string> unexpected;
  std::vector<Conversion> mismatched;
  std::vector<std::string> warnings;
  // kEachRank or kOnce, and why, in words.
  ReadSharing read_sharing = ReadSharing::kEachRank;
  std::string sharing_note;
  TransferCounters counters;

  // Returns what was restored from where and how long it took as one line, and
  // one more for each kind of value that was not, and for each warning. Local.
  std::string ToString() const;
};

}  // namespace belay

#endif  // BELAY_OPTIONS_H_
