// Options and results of Save and Restore. Plain structs; every default works.
//
// C++ requires the members of {.overwrite = true, .durable = false} in the
// order of their declaration.

#ifndef BELAY_OPTIONS_H_
#define BELAY_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "belay/arrays/box.h"
#include "belay/arrays/dtype.h"
#include "belay/manager/metadata.h"
#include "belay/values/restore_args.h"
#include "belay/values/save_args.h"
#include "belay/values/sharding_policy.h"

namespace belay {

class PlanCache;
class TypeHandlerRegistry;

// Which ranks share a data file. A sharding policy with several groups makes
// one such file per group. The enum values are stored on disk.
enum class FileLayout : uint8_t {
  kShared = 0,   // one file; one dataset of the global shape per key
  kPerNode = 1,  // one file per shared-memory node; one dataset per piece
  kPerTask = 2,  // one file per rank; one dataset per piece
};

// How an array is stored in a kShared file of the default sharding policy. In
// other files, a kCanonical array is still stored contiguously, but the file
// bytes depend on what each rank holds, and SaveResult::warnings says so.
enum class ArrayLayout : uint8_t {
  // One chunk per shard if the shards form a regular grid, at least one shard
  // consists of runs shorter than 256 KiB in the array, and a chunk is smaller
  // than 4 GiB.
  // Otherwise contiguous.
  kAuto = 0,
  // Always contiguous and row-major: the same values give the same file bytes,
  // on any number of ranks and in any partition.
  kCanonical = 1,
};

// How bytes reach the file. All transfers write the same file.
enum class Transfer : uint8_t {
  // With kPerTask, where each file has one writer, kCollective and kTwoPhase
  // act as kIndependent, and SaveResult::transfer_note says so.
  kCollective = 0,   // one collective MPI-IO call per round and file
  kIndependent = 1,  // every rank writes its own pieces; no MPI
  kHdf5 = 2,         // one collective H5Dwrite per dataset and round
  // Each rank gathers the data of its file domain from the other ranks and
  // writes it in few calls. Plain MPI and positional writes, no MPI-IO.
  kTwoPhase = 3,
  // kTwoPhase if runs in the file are so short (mean below 8 KiB) that
  // gathering them pays off, or if, on a parallel file system, more than one in
  // four stripes of a shared file would be written by several nodes. Otherwise
  // kIndependent.
  kAuto = 4,
};

// Who reads data that several ranks need.
enum class ReadSharing : uint8_t {
  // kOnce if that avoids reading at least 1 MiB per rank and 256 KiB per round.
  // Otherwise, or if ranks cannot share memory, kEachRank.
  kAuto = 0,
  kEachRank = 1,  // every rank reads all that it needs
  // One rank reads each byte and delivers it to the other ranks that need it:
  // within a node through shared memory, and to every other node once.
  // It is an error if there is no such memory.
  kOnce = 2,
};

// What a restore does with values that do not match.
enum class MismatchPolicy : uint8_t {
  kError = 0,    // fails and names one or more of them
  kWarn = 1,     // as kCollect, with a line for each in RestoreResult::warnings
  kCollect = 2,  // lists them in the RestoreResult
  kIgnore = 3,   // does not report them
};

struct SaveResult;

struct SaveOptions {
  // --- What is stored ---
  FileLayout file_layout = FileLayout::kShared;
  ArrayLayout array_layout = ArrayLayout::kAuto;
  // Divides the pieces that each rank writes into groups. `file_layout` says
  // which ranks' groups share a file. The policy's description and parameters
  // must be equal on all ranks.
  ShardingPolicy sharding_policy = ShardByTask();
  // How individual values are stored, by key. The first entry that matches
  // applies. Each entry must match some key of some rank. With objects, keys
  // are those of the checkpoint, such as "model/w/.ATTRIBUTES/value".
  std::vector<SaveArgsFor> args = {};
  // Store f32 arrays as bf16 unless `args` name a dtype: half the bytes and 8
  // bits of each mantissa. Restore them with allow_dtype_cast.
  bool float32_as_bfloat16 = false;
  // Replace a committed step instead of failing. The old step stays until the
  // new one is complete.
  bool overwrite = false;
  // Checksum every block, so that Restore and `belay verify` detect damage.
  bool checksums = true;
  // Whether a save fails if replicas are not bitwise equal. The error names the
  // key, the box and the ranks. Each rank that holds a value writes a part of
  // it, so unequal replicas would be stored as a mix that no rank held.
  // true: every save reads all replicas once more.
  // Unset: a save that makes a plan reads them all. These are the first save of
  // a structure and each save without a PlanCache or with a filter. A save that
  // reuses its plan compares all values of at most 256 bytes and a sample of
  // the larger ones, in blocks of 256 bytes: 64 to 256 KiB on the rank that
  // holds the most. Each save samples different blocks, so every byte is
  // compared at least once in (replicated bytes of that rank) / 64 KiB saves
  // (docs/state.md, docs/performance.md).
  // false: nothing is compared. If maps or lists differ, those of any one rank
  // are stored.
  // Replicas that are partitioned into different boxes are never compared.
  std::optional<bool> check_replicas = {};
  // Fail, and commit nothing, if storing values with another dtype changes any
  // of them by more than rounding: a value that is too large for the dtype, NaN
  // or infinity as an integer, a nonzero number that becomes 0, a fraction that
  // is cut off, or an integer that the float type cannot hold exactly.
  // Otherwise SaveResult::warnings counts such values, with a line for each
  // key.
  bool strict_dtype = false;

  // Handlers for types that belay does not store by itself. Null: the global
  // registry. Borrowed.
  const TypeHandlerRegistry* handlers = nullptr;
  // Stored with the values, for people and programs to read. Only the metadata
  // of rank 0 is used.
  Metadata metadata = {};

  // --- How it is stored ---
  Transfer transfer = Transfer::kAuto;
  // Upper limit on the bytes that one rank passes to the transfer at a time.
  // Also limits the memory for converting them and, with kTwoPhase, for
  // gathering the data of other ranks (at least 1 MiB). Larger pieces are
  // split. From 4 KiB to 1 GiB. Lower it to bound MPI-IO's buffers.
  int64_t max_bytes_in_flight = int64_t{256} << 20;
  // Sync files and directories before the commit, so that a committed step
  // survives a power failure. Disable it only for in-memory file systems.
  bool durable = true;
  // Read all values back after writing and compare them with memory. On most
  // file systems this reads the page cache, not the device.
  bool read_back = false;
  // MPI-IO hints. If there are hints, MPI-IO instead of POSIX calls creates
  // each data file, for any transfer, because striping hints apply only at
  // creation. kCollective also writes with them; they override belay's own
  // hints. MPI ignores unknown hints. If the file system does not report
  // striping, kAuto and kTwoPhase take it from "striping_unit" and
  // "striping_factor". Must be equal on all ranks.
  std::map<std::string, std::string> mpi_io_hints = {};
  // Called on rank 0 when the whole step is on disk, just before the rename.
  // `directory` is its path until the rename. If it returns an error or throws,
  // the save is not committed and fails with that error on all ranks. A file
  // that it adds does not belong to belay, so no manager will ever delete the
  // step. It must not communicate.
  std::function<Status(const std::string& directory, int64_t step)>
      before_commit = nullptr;
  // Called on rank 0 after the commit, whether or not later work fails.
  // Exceptions go to the log. It must not communicate.
  std::function<void(const SaveResult& result)> after_commit = nullptr;
  // Seconds that one stage (plan, reserve, write, ...) may take before the job
  // ends with exit code 75, so that it cannot hang forever. 0: no limit. Raise
  // it if writing alone takes longer.
  double deadline_seconds = 600;
  // Reuses the plan and the file skeleton while the structure stays the same.
  // Borrowed; may be null. One per program is enough. A Checkpoint has its own
  // cache, and so does a manager of a Checkpoint.
  PlanCache* cache = nullptr;
};

// An array of a step, without its values.
struct StepArray {
  std::string key;
  DType dtype = DType::kU8;
  Shape shape;
  std::string fields = {};  // of structs, as in ArrayInfo

  friend bool operator==(const StepArray&, const StepArray&) = default;
};

// The step that a restore reads; equal on all ranks.
struct StoredStep {
  std::string path;
  int64_t step = 0;
  std::vector<StepArray> arrays;  // ascending by key
};

// A dtype or shape mismatch is an error unless one of the first two options
// allows it. RestoreResult::conversions then lists it.
struct RestoreOptions {
  // Convert numbers to the dtype of the program, as SaveArgs::dtype describes.
  bool allow_dtype_cast = false;
  // Restore arrays whose axes have different lengths, such as a padded
  // vocabulary; the number of axes must match. Each element keeps its index.
  // Elements that are not stored keep their values; stored elements that are
  // not needed are not read.
  bool allow_shape_mismatch = false;
  // What to do with values of the program that are not stored (`missing`), with
  // stored values that no rank needs (`unexpected`), and with arrays stored
  // with a dtype or shape that is not allowed (`mismatched`). Values that are
  // not restored keep their contents. Values with handlers and rows of ranks
  // are never mismatched: for them, a different type, or arrays that do not fit
  // what a handler lists, is always an error. For objects, `missing` and
  // `unexpected` must keep their defaults; LoadStatus reports those values.
  MismatchPolicy missing = MismatchPolicy::kError;
  MismatchPolicy unexpected = MismatchPolicy::kIgnore;
  MismatchPolicy mismatched = MismatchPolicy::kError;
  // Fail if allow_dtype_cast changes any value by more than rounding, as
  // SaveOptions::strict_dtype describes. Memory is then partly or wholly
  // overwritten, as after any failed restore. Otherwise RestoreResult::warnings
  // counts such values, on each rank that restores them.
  bool strict_dtype = false;
  // Arguments for the program's values whose keys match an entry. The first
  // entry that matches applies. An entry that matches no key of any rank is an
  // error. With objects, keys are those of the program's objects.
  std::vector<RestoreArgsFor> args = {};
  // Restore only the values for which this function returns true; null: all.
  // The result may differ between ranks.
  std::function<bool(std::string_view key)> selects = nullptr;
  // Called on all ranks after the step is opened and before the State is used.
  // If values come and go, such as the patches of an adaptive mesh, it creates
  // the stored ones and adds them to the State. It must begin with a new State,
  // `state = {}`, because a manager calls it once for each step that it tries.
  // It may communicate, and its time counts for deadline_seconds. An error on
  // any rank fails the restore on all ranks. DataLoss, NotFound and
  // Unimplemented, which refer to files, become FailedPrecondition. Null: none.
  // Refused for objects, which already exist; ChooseStep ignores it.
  std::function<Status(const StoredStep& stored)> on_open = nullptr;
  // Verify the blocks that the ranks' reads cover together.
  bool checksums = true;
  // For foreign HDF5 files, each rank reads its own boxes; kOnce and
  // primary_replica are refused.
  ReadSharing read_sharing = ReadSharing::kAuto;
  // Only the ranks whose shards have this replica number read from the files.
  // They deliver the values to all other ranks that need them, and together
  // must hold everything that is needed.
  std::optional<int64_t> primary_replica = {};
  // Upper limit of one rank's memory for delivering values to other ranks, and
  // of its staging memory (plus two pages). From 4 KiB to 1 GiB.
  int64_t max_bytes_in_flight = int64_t{256} << 20;
  // As in SaveOptions.
  const TypeHandlerRegistry* handlers = nullptr;
  // As in SaveOptions.
  double deadline_seconds = 600;
};

// A stage and the time it took.
struct StageTime {
  std::string stage;
  double seconds = 0;
};

// A key whose stored dtype or shape differs from what was requested.
struct Conversion {
  std::string key;
  DType dtype = DType::kU8;  // as requested
  Shape shape;
  DType stored_dtype = DType::kU8;
  Shape stored_shape;

  friend bool operator==(const Conversion&, const Conversion&) = default;
};

// Counters of a save or a restore. Counts are sums over all ranks. Stage times
// and memory are the maximum over ranks. Equal on all ranks.
struct TransferCounters {
  int64_t bytes = 0;            // array bytes written or read
  int64_t delivered_bytes = 0;  // read by one rank for another
  int64_t staged_bytes = 0;     // staging memory of a rank
  int64_t io_calls = 0;         // data reads or writes issued
  int64_t collective_io = 0;    // collective MPI-IO or HDF5 calls, per rank
  int64_t files = 0;            // data files opened, per checkpoint
  int64_t messages = 0;  // MPI collectives of a rank, agreements included
  int64_t peak_memory_bytes = 0;  // maximum, as the system reports it
  // The most bytes that a rank sent to agree on the structure of a save and to
  // plan it; at most 64 if the plan was reused. 0 in a restore.
  int64_t agreement_bytes = 0;
  // The members below are set only by saves that write stripes of a shared file
  // with kIndependent or kTwoPhase; otherwise all are 0. The stripe size comes
  // from the file system or the hint "striping_unit". If `stripes` equals
  // `stripe_writers`, no two ranks wrote to the same stripe.
  int64_t stripes = 0;                  // stripes written; from the plan
  int64_t stripe_writers = 0;           // sum over ranks of stripes written
  int64_t stripe_requests = 0;          // writes, counted once per stripe
  int64_t stripe_servers = 0;           // that hold the stripes; 0: unknown
  int64_t busiest_server_requests = 0;  // most of any server
  std::vector<StageTime> stages;
};

struct SaveResult {
  std::string path;  // the committed directory
  int64_t step = 0;
  int64_t num_arrays = 0;
  int64_t rounds = 0;
  bool plan_reused = false;
  // The transfer that was used. If it is not the requested one, or if kAuto
  // chose it because of stripes, transfer_note says why. Chunks with filters
  // are always written with kHdf5, and the note says so.
  Transfer transfer = Transfer::kCollective;
  std::string transfer_note;
  // Warnings of the sharding policy, and warnings about file systems to which
  // several nodes should not write together, about an array layout that the
  // chosen file layout cannot have, and about values that another dtype changes
  // by more than rounding (SaveOptions::strict_dtype). Equal on all ranks.
  std::vector<std::string> warnings;
  TransferCounters counters;

  // Returns one line that says what was saved, where, how, and how long it
  // took, and one more line for each warning. Local.
  std::string ToString() const;
};

struct RestoreResult {
  std::string path;
  int64_t step = 0;
  int64_t num_arrays = 0;
  // Blocks compared with their checksum, and blocks of the restored arrays that
  // the reads covered only in part.
  int64_t blocks_verified = 0;
  int64_t blocks_partial = 0;
  // Ascending by key; one for each dtype and shape that any rank requested.
  // Equal on all ranks.
  std::vector<Conversion> conversions;
  // Keys that are not stored, if the options or the arguments allow this;
  // stored keys that no rank needs; and arrays stored with another dtype or
  // shape, one entry for each form that any rank requested. Each list is filled
  // only if the options request it. Ascending and equal on all ranks, as are
  // the warnings.
  std::vector<std::string> missing;
  std::vector<std::string> unexpected;
  std::vector<Conversion> mismatched;
  std::vector<std::string> warnings;
  // kEachRank or kOnce, and the reason for it.
  ReadSharing read_sharing = ReadSharing::kEachRank;
  std::string sharing_note;
  TransferCounters counters;

  // Returns one line that says what was restored, from where, and how long it
  // took, and one more line for each kind of value that was not restored and
  // for each warning. Local.
  std::string ToString() const;
};

}  // namespace belay

#endif  // BELAY_OPTIONS_H_
