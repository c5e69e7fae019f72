// Reads a committed step without MPI and without the objects that were saved:
// what it holds, the values of any box, and whether it is intact.
//
//   StatusOr<CheckpointReader> reader = CheckpointReader::Open("run");
//   for (const ArrayInfo& array : reader->info().arrays) ...
//   StatusOr<Tensor> rows = reader->ReadTensor("w", {{2, 0}, {4, 8}});
//
// Neither MPI_Init nor a Comm is needed.

#ifndef BELAY_CHECKPOINT_READER_H_
#define BELAY_CHECKPOINT_READER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "belay/arrays/box.h"
#include "belay/arrays/dtype.h"
#include "belay/arrays/tensor.h"
#include "belay/extend/type_handler.h"
#include "belay/handlers/value_tree.h"
#include "belay/objects/object_info.h"
#include "belay/options.h"
#include "belay/status.h"

namespace belay {

// One array of a checkpoint.
struct ArrayInfo {
  std::string key;
  DType dtype = DType::kU8;
  Shape shape;
  int64_t bytes = 0;
  // How it is stored: "contiguous", "3 pieces",
  // "4 chunks of [128, 64], shuffle, deflate(1)".
  std::string cut;
  // The arguments it was saved with, such as "dtype=bf16"; "" for none.
  std::string args;
  // Its layout on a mesh, as Layout::ToString prints it; "" if not stored.
  std::string layout;
  // For structs, whose bytes are along the last axis: "id:i64 x:f64[3]" (see
  // fields.h). "" for numbers.
  std::string fields = {};
};

// A piece of an array in a data file.
struct StoredPiece {
  std::string file;
  int64_t group = 0;  // from the sharding policy
  std::string key;
  Box box;  // a string counts as an array of bytes
  // The task that wrote it. Unset: several tasks, or unknown.
  std::optional<int64_t> task;
};

// One value of a checkpoint: an array, or any number of arrays that a handler
// stored.
struct ValueInfo {
  std::string key;
  std::string typestr;  // of its handler, or as in StoredValue
  // The arrays it consists of, ascending by name. Names are relative to the
  // key.
  std::vector<ValuePart> parts;
  std::string layout;  // of an object's array: Layout::ToString, or ""

  friend bool operator==(const ValueInfo&, const ValueInfo&) = default;
};

struct CheckpointInfo {
  std::string path;
  int64_t step = 0;
  // When the save began, by the clock of rank 0, in seconds since 1970 (UTC).
  int64_t time = 0;
  int format_major = 0;
  int format_minor = 0;
  FileLayout file_layout = FileLayout::kShared;
  int64_t num_files = 0;
  int64_t file_bytes = 0;  // of the data files
  int64_t bytes = 0;
  bool has_checksums = false;
  bool has_graph = false;           // saved with objects
  std::vector<ArrayInfo> arrays;    // ascending by key
  std::vector<StoredPiece> pieces;  // by file, then by key
};

// Returns the step directory that `path` denotes: `path` itself, or the newest
// committed step of a run directory. Local.
// Errors: NotFound - no such directory, or no committed step in it; says what
//   is there instead.
StatusOr<std::string> ResolveStep(const std::string& path);

// Reads only the index of the step directory `path`. Local.
// Errors: NotFound, DataLoss, Unimplemented - as for Restore.
StatusOr<CheckpointInfo> ReadCheckpointInfo(const std::string& path);

// An open step. Copies share the contents of the index. No file stays open,
// except with KeepingFilesOpen, so a step that was deleted or replaced since
// can no longer be read.
//
// Threads: many threads may use one reader at the same time. Open uses HDF5,
// which only one thread of the whole program may use at a time. Reading an
// array with filters also uses HDF5; readers wait for each other there.
//
// A field of an array of structs is also an array. Its key is the key of that
// array, `.` and the field's name: ReadTensor("particles.position").
//
// Errors of all Read functions: NotFound - the key is not stored; names up to
//   three similar ones; DataLoss - a data file is missing or too short, or a
//   block does not match its checksum; names key, block and file;
//   ResourceExhausted - not enough memory. Blocks that a read covers only in
//   part are not verified.
class CheckpointReader {
 public:
  // Opens the step that ResolveStep returns for `path`. Local. Reads only the
  // index: a data file is accessed when something in it is read.
  // Errors: NotFound, DataLoss, Unimplemented - as for Restore.
  static StatusOr<CheckpointReader> Open(const std::string& path);

  // Returns a reader of the same step for reading many small arrays one after
  // another: up to 16 data files stay open until it and all its copies are
  // destroyed. It and its copies must be used by only one thread at a time. If
  // the step is replaced or deleted, data in files that are open can still be
  // read. Local.
  CheckpointReader KeepingFilesOpen() const;

  // Returns what the step holds. Local.
  const CheckpointInfo& info() const;

  // Returns whether an array with that key exists. Local.
  bool Has(std::string_view key) const;

  // Returns the description of an array. Local.
  // Errors: NotFound - as above.
  StatusOr<ArrayInfo> Find(std::string_view key) const;

  // Returns all values, ascending by key, including those inside other values.
  // Local. Reads no file: the index lists them.
  std::vector<ValueInfo> Values() const;

  // Returns the saved objects, the root first; none if the step has no graph.
  // Local.
  // Errors: DataLoss - the index describes impossible objects;
  //   ResourceExhausted - their paths take more than 64 MiB.
  StatusOr<std::vector<ObjectInfo>> Objects() const;

  // Returns how many rows of an array each of `num_ranks` ranks gets if it
  // restores the array with State::AddRows: its own rows, or an even part of
  // all. Local.
  // Errors: as above; FailedPrecondition - the array has no axes;
  //   InvalidArgument - no ranks.
  StatusOr<std::vector<int64_t>> RowCounts(std::string_view key,
                                           int num_ranks) const;

  // Reads a whole array. Local.
  // Errors: as above; FailedPrecondition - it is a string.
  StatusOr<Tensor> ReadTensor(std::string_view key) const;

  // Reads any box of an array. Local.
  // Errors: as above; OutOfRange - the box exceeds the array; InvalidArgument -
  //   it has another number of axes, or a negative number.
  StatusOr<Tensor> ReadTensor(std::string_view key, const Box& box) const;

  // Reads a string. Local.
  // Errors: as above; FailedPrecondition - it is an array of another type.
  StatusOr<std::string> ReadText(std::string_view key) const;

  // Calls `visit` for boxes that tile `box` in row-major order. Each has at
  // most `max_bytes`, or one element, so that arrays of any size can be
  // processed with little memory. Blocks that `box` covers are verified after
  // the last call. Local. The tensor is valid only during the call.
  // Errors: those of ReadTensor; the first one of `visit`, which stops the
  //   iteration.
  Status ReadPieces(
      std::string_view key, const Box& box, int64_t max_bytes,
      const std::function<Status(const Box&, const Tensor&)>& visit) const;

 private:
  struct Impl;

  explicit CheckpointReader(std::shared_ptr<const Impl> impl);
  friend StatusOr<Tensor> LoadVariable(const std::string& path,
                                       std::string_view key);

  std::shared_ptr<const Impl> impl_;
};

// Returns the arrays of a step, ascending by key. Local. `path` as for
// CheckpointReader::Open. (TensorFlow's list_variables.)
StatusOr<std::vector<ArrayInfo>> ListVariables(const std::string& path);

// Reads one array of a step. Local. `path` as for CheckpointReader::Open; to
// read many arrays, open the step once with that. Spends little time on the
// other arrays, however many there are: unlike Open, it does not detect
// impossible descriptions of other arrays in an index whose checksums match.
// (TensorFlow's load_variable.)
// Errors: those of Open and ReadTensor.
StatusOr<Tensor> LoadVariable(const std::string& path, std::string_view key);

// Reads all values of a step. Local.
// Errors: those of CheckpointReader::ReadTensor and ReadText.
StatusOr<ValueTree> ReadTree(const CheckpointReader& reader);

// Result of VerifyCheckpoint.
struct VerifyResult {
  int64_t blocks = 0;
  int64_t bytes = 0;
  // One line per damaged block or file; empty if there is none.
  std::vector<std::string> damage;
};

// Reads every byte of the step directory `path`, verifies checksums, and finds
// each array in the data files through HDF5, as other programs would. Local.
// `progress` gets the bytes done and the total bytes; may be empty.
// Errors: as ReadCheckpointInfo. Damage in the data files is not an error; the
//   result lists it.
StatusOr<VerifyResult> VerifyCheckpoint(
    const std::string& path,
    const std::function<void(int64_t, int64_t)>& progress = {});

}  // namespace belay

#endif  // BELAY_CHECKPOINT_READER_H_
