// Looks into a committed step without MPI and without the objects that were
// saved: what it holds, the values of any box, and whether all is intact.
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

#include "belay/box.h"
#include "belay/dtype.h"
#include "belay/object_info.h"
#include "belay/options.h"
#include "belay/status.h"
#include "belay/tensor.h"
#include "belay/type_handler.h"
#include "belay/value_tree.h"

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
  // The arguments that it was saved with, as "dtype=bf16"; "" for none.
  std::string args;
  // How it was laid out on a mesh, as Layout::ToString says it; "": not said.
  std::string layout;
  // Of structs, whose bytes are along the last axis: "id:i64 x:f64[3]" (see
  // fields.h). "": it is made of numbers.
  std::string fields = {};
};

// What a data file holds of an array.
struct StoredPiece {
  std::string file;
  // Of the sharding policy. Unset: format 1.0 did not say.
  std::optional<int64_t> group;
  std::string key;
  Box box;  // a string counts as an array of bytes
  // Who wrote it. Unset: several, or not known.
  std::optional<int64_t> task;
};

// One value of a checkpoint: an array, or what a handler has stored as any
// number of arrays.
struct ValueInfo {
  std::string key;
  std::string typestr;  // of its handler, or as of StoredValue
  // The arrays that it consists of, ascending by name; names are relative to
  // the key.
  std::vector<ValuePart> parts;
  std::string layout;  // of an array of an object: Layout::ToString, or ""

  friend bool operator==(const ValueInfo&, const ValueInfo&) = default;
};

struct CheckpointInfo {
  std::string path;
  int64_t step = 0;
  int format_major = 0;
  int format_minor = 0;
  FileLayout file_layout = FileLayout::kShared;
  int64_t num_files = 0;
  int64_t file_bytes = 0;  // of the data files
  int64_t bytes = 0;
  bool has_checksums = false;
  bool has_graph = false;         // saved with objects, in format 1.2 or newer
  std::vector<ArrayInfo> arrays;  // ascending by key
  std::vector<StoredPiece> pieces;  // by file, then by key
};

// Returns the step directory that `path` means: itself, or the newest committed
// step of a run directory. Local.
// Errors: NotFound - no such directory, or nothing in it is committed; says
//   what is there instead.
StatusOr<std::string> ResolveStep(const std::string& path);

// Reads the index of the step directory `path`, and nothing else. Local.
// Errors: NotFound, DataLoss, Unimplemented - as Restore.
StatusOr<CheckpointInfo> ReadCheckpointInfo(const std::string& path);

// One open step. A copy shares what the index says. It keeps no file open, so
// a step that is deleted or replaced meanwhile can no longer be read.
//
// Threads: one reader may be used by many threads at once. Open uses HDF5,
// which one thread at a time may do in the whole program; so does reading an
// array with filters, for which readers wait for each other.
//
// A field of an array of structs is an array as well, under the key of that,
// `.` and its name: ReadTensor("particles.position").
//
// Errors of all Read functions: NotFound - the key is absent; names up to three
//   close ones; DataLoss - a data file is missing or too short, or a block does
//   not match its checksum; names key, block and file; ResourceExhausted - not
//   enough memory. Blocks that a read covers only in part are not checked.
class CheckpointReader {
 public:
  // Opens what ResolveStep finds for `path`. Local. Reads the index only: a
  // data file is looked at when something in it is read.
  // Errors: NotFound, DataLoss, Unimplemented - as Restore.
  static StatusOr<CheckpointReader> Open(const std::string& path);

  // Returns what the step holds. Local.
  const CheckpointInfo& info() const;

  // Returns whether there is an array of that key. Local.
  bool Has(std::string_view key) const;

  // Returns what is known of an array. Local.
  // Errors: NotFound - as above.
  StatusOr<ArrayInfo> Find(std::string_view key) const;

  // Returns all values, ascending by key; those inside other ones are listed as
  // well. Local. Reads nothing: the index says it.
  std::vector<ValueInfo> Values() const;

  // Returns the objects that were saved, the root first. Local. None, if the
  // step has no graph.
  // Errors: DataLoss - the index speaks of objects that cannot be.
  StatusOr<std::vector<ObjectInfo>> Objects() const;

  // Reads a whole array. Local.
  // Errors: as above; FailedPrecondition - it is a string.
  StatusOr<Tensor> ReadTensor(std::string_view key) const;

  // Reads any box of an array. Local.
  // Errors: as above; OutOfRange - the box leaves the array; InvalidArgument -
  //   it has another number of axes, or a negative number.
  StatusOr<Tensor> ReadTensor(std::string_view key, const Box& box) const;

  // Reads a string. Local.
  // Errors: as above; FailedPrecondition - it is an array of another type.
  StatusOr<std::string> ReadText(std::string_view key) const;

  // Calls `visit` for boxes of at most `max_bytes`, or of one element, which
  // tile `box` in row-major order, so that arrays of any size can be looked at
  // with little memory. Blocks that `box` covers are compared with their
  // checksums after the last call. Local. The tensor is valid during the call.
  // Errors: those of ReadTensor; the first one of `visit`, which ends it.
  Status ReadPieces(
      std::string_view key, const Box& box, int64_t max_bytes,
      const std::function<Status(const Box&, const Tensor&)>& visit) const;

 private:
  struct Impl;

  explicit CheckpointReader(std::shared_ptr<const Impl> impl);

  std::shared_ptr<const Impl> impl_;
};

// Returns the arrays of a step, ascending by key. Local. `path` as for
// CheckpointReader::Open. (TensorFlow's list_variables.)
StatusOr<std::vector<ArrayInfo>> ListVariables(const std::string& path);

// Reads one array of a step. Local. `path` as for CheckpointReader::Open, which
// opens a step once for many arrays. (TensorFlow's load_variable.)
// Errors: those of Open and ReadTensor.
StatusOr<Tensor> LoadVariable(const std::string& path, std::string_view key);

// Reads all values of a step. Local.
// Errors: those of CheckpointReader::ReadTensor and ReadText.
StatusOr<ValueTree> ReadTree(const CheckpointReader& reader);

// What VerifyCheckpoint found.
struct VerifyResult {
  int64_t blocks = 0;
  int64_t bytes = 0;
  // One line per damaged block or file; empty if all is well.
  std::vector<std::string> damage;
};

// Reads every byte of the step directory `path` and compares checksums, and
// looks for each array in the data files as other programs do, by HDF5. Local.
// `progress` is called with the bytes done and the bytes in all; may be empty.
// Errors: as ReadCheckpointInfo. Damage in the data files is no error but is
//   listed in the result.
StatusOr<VerifyResult> VerifyCheckpoint(
    const std::string& path,
    const std::function<void(int64_t, int64_t)>& progress = {});

}  // namespace belay

#endif  // BELAY_CHECKPOINT_READER_H_
