// Reading boxes of one array, or of one field of its structs, without MPI.

#ifndef BELAY_RESTORE_ARRAY_READING_H_
#define BELAY_RESTORE_ARRAY_READING_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "belay/arrays/box.h"
#include "belay/arrays/fields.h"
#include "belay/arrays/shard.h"
#include "belay/status.h"
#include "plan/plan.h"
#include "storage/reader.h"

namespace belay {

// Reading boxes of one array, without MPI: a restore of a single rank.

// Any number of disjoint boxes may be read; blocks that they cover together
// can then be checked.
class ArrayReading {
 public:
  // `index` has one array; its files are in `directory`. `kept` keeps them open
  // and is borrowed; null: they are closed after each box.
  ArrayReading(SavedCheckpoint index, std::string directory,
               OpenFiles* kept = nullptr);

  // Reads the box of a shard of the array into its memory. A text must
  // have its final length.
  // Errors: those of CheckDataFiles, PlanRestore and ReadAll.
  Status Read(const Shard& shard);

  // Into how many parts a box of an array is cut that has so many chunks of it,
  // so that the plan of each is small.
  static int64_t NumParts(int64_t chunks);

  // Compares the blocks that were read whole with their checksums.
  // Errors, which print: DataLoss - those of CompareChecksums.
  Status CheckBlocks() const;

 private:
  // The same with one plan.
  Status ReadPart(const Shard& shard);
  // As CheckDataFiles; of files that stay open once.
  Status CheckFiles(const SavedCheckpoint& index);
  // How many chunks, whose places are known, have some of a box.
  int64_t ChunksIn(const Box& box) const;

  SavedCheckpoint index_;
  std::string directory_;
  OpenFiles* kept_;
  std::vector<uint32_t> registers_;
  std::vector<int64_t> covered_;
};

// A field of an array of structs, seen as an array of its own: "particles.x".

// An array of a checkpoint, or a field of one.
struct ArrayView {
  size_t number = 0;  // of the array
  DType dtype = DType::kU8;
  Shape shape = {};
  std::optional<StructField> field = {};  // as it is stored
};

// The field that such a key names, if it does. `saved` has no such array.
std::optional<ArrayView> FindField(const SavedCheckpoint& saved,
                                   std::string_view key);

// The box of the array that is read for one of the view.
Box ArrayBox(const ArrayView& view, const StoredArray& array, const Box& box);

// Reads a box of the view to `data`, dense and row-major.
// Errors: those of ArrayReading::Read; ResourceExhausted.
Status ReadView(const ArrayView& view, const StoredArray& array, const Box& box,
                ArrayReading& reading, void* data);

}  // namespace belay

#endif  // BELAY_RESTORE_ARRAY_READING_H_
