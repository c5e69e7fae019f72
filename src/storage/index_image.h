// The bytes of an index, made without HDF5.

#ifndef BELAY_STORAGE_INDEX_IMAGE_H_
#define BELAY_STORAGE_INDEX_IMAGE_H_

#include "core/status_macros.h"
#include "format/bounded_file.h"
#include "format/stored_columns.h"

namespace belay {

// The bytes of index.h5, put together in memory: first without what is known
// only when the data files exist, then but for what is known when they are
// full, which is step, time, checksums and their digest. These bytes depend on
// the plan alone, so the next index of the same plan has the same.
struct IndexImage {
  std::string bytes;
  // Offsets in the file of the columns that are known late; -1: no rows.
  int64_t step_offset = -1;
  int64_t time_offset = -1;
  int64_t checksum_offset = -1;
  int64_t digest_offset = -1;
  int64_t dataset_offset = -1;
  int64_t file_bytes_offset = -1;
  // For CompleteIndex: the sum of all columns but these, and the datasets in the
  // order of their rows.
  ColumnCrc structure = {};
  std::vector<int32_t> order = {};
};

// Puts every array of `saved` under its key, and all that `saved` says but where
// the datasets lie and how long the files are. `saved.datasets` may be in any
// order. There is room for one checksum per block if `saved` says that it has
// some. `path` is for messages.
// Errors: InvalidArgument - a name is too long for HDF5, or a text has a NUL in
//   it; ResourceExhausted - more names in one group than HDF5 has a place for.
StatusOr<IndexImage> DraftIndex(const std::string& path,
                                const SavedCheckpoint& saved);

// Adds the places of datasets and the lengths of files to a draft. Same as for
// the draft: all else that `saved` says.
void CompleteIndex(const SavedCheckpoint& saved, IndexImage& draft);

}  // namespace belay

#endif  // BELAY_STORAGE_INDEX_IMAGE_H_
