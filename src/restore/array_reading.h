// Reads boxes of one array, or of one field of its structs, without MPI.

#ifndef BELAY_RESTORE_ARRAY_READING_H_
#define BELAY_RESTORE_ARRAY_READING_H_

#include <optional>

#include "belay/arrays/fields.h"
#include "belay/extend/shard.h"
#include "belay/status.h"
#include "plan/plan.h"
#include "storage/reader.h"

namespace belay {

// Reads boxes of one array. The boxes must be disjoint. CheckBlocks verifies
// the blocks that all boxes together cover.
class ArrayReading {
 public:
  // `index` must have one array, whose files are in `directory`. `kept` is
  // borrowed and keeps files open. If it is null, files are closed after each
  // box.
  ArrayReading(SavedCheckpoint index, std::string directory,
               OpenFiles* kept = nullptr);

  // Reads the box of a shard into its memory. A string must have its final
  // length.
  // Errors: those of CheckDataFiles, PlanRestore and ReadAll.
  Status Read(const Shard& shard);

  // Returns the number of parts in which to read a box with `chunks` chunks, so
  // that plans stay small.
  static int64_t NumParts(int64_t chunks);

  // Verifies the checksums of blocks that were read whole.
  // Errors, which print: DataLoss - those of CompareChecksums.
  Status CheckBlocks() const;

 private:
  // Reads the box of a shard with one plan.
  Status ReadPart(const Shard& shard);
  // Like CheckDataFiles, but checks files that stay open only once.
  Status CheckFiles(const SavedCheckpoint& index);
  // Returns the number of chunks with known offsets that overlap a box.
  int64_t ChunksIn(const Box& box) const;

  SavedCheckpoint index_;
  std::string directory_;
  OpenFiles* kept_;
  std::vector<uint32_t> registers_;
  std::vector<int64_t> covered_;
};

// An array of a checkpoint, or a field of an array of structs, such as
// "particles.x".
struct ArrayView {
  size_t number = 0;  // of the array
  DType dtype = DType::kU8;
  Shape shape = {};
  std::optional<StructField> field = {};  // with its stored offset
};

// Finds the field that a key names. Requires that `saved` has no array with
// that key.
std::optional<ArrayView> FindField(const SavedCheckpoint& saved,
                                   std::string_view key);

// Converts a box of the view to a box of the array.
Box ArrayBox(const ArrayView& view, const StoredArray& array, const Box& box);

// Reads a box of the view into `data`, dense and row-major.
// Errors: those of ArrayReading::Read; ResourceExhausted.
Status ReadView(const ArrayView& view, const StoredArray& array, const Box& box,
                ArrayReading& reading, void* data);

}  // namespace belay

#endif  // BELAY_RESTORE_ARRAY_READING_H_
