// Reading boxes of one array, without MPI: a restore of a single rank.

#ifndef BELAY_RESTORE_ARRAY_READING_H_
#define BELAY_RESTORE_ARRAY_READING_H_

#include <cstdint>
#include <string>
#include <vector>

#include "belay/arrays/shard.h"
#include "belay/status.h"
#include "io/transfer/open_files.h"
#include "plan/plan.h"

namespace belay {

// Any number of disjoint boxes may be read; blocks that they cover together
// can then be checked.
class ArrayReading {
 public:
  // `index` has one array; its files are in `directory`. `kept` keeps them open
  // and is borrowed; null: they are closed after each box.
  ArrayReading(SavedCheckpoint index, std::string directory,
               OpenFiles* kept = nullptr);

  // Reads the box of a shard of the array into its memory. Local. A text must
  // have its final length.
  // Errors: those of CheckDataFiles, PlanRestore and ReadAll.
  Status Read(const Shard& shard);

  // Into how many parts a box of an array is cut that has so many chunks of it,
  // so that the plan of each is small. Local.
  static int64_t NumParts(int64_t chunks);

  // Compares the blocks that were read whole with their checksums. Local.
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

}  // namespace belay

#endif  // BELAY_RESTORE_ARRAY_READING_H_
