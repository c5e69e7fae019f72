// The bytes of an index, made without HDF5.

#ifndef BELAY_STORAGE_INDEX_IMAGE_H_
#define BELAY_STORAGE_INDEX_IMAGE_H_

#include "core/status_macros.h"
#include "format/bounded_file.h"
#include "format/stored_columns.h"

namespace belay {

// The bytes of index.h5, put together in memory.
//
// In:  what an index says. Out: its file, first without what is known only when
//      the data files exist, then but for what is known when they are full.

// An index but for what is known last: step, time, checksums and their digest.
// Its bytes depend on the plan alone, so the next index of the same plan has
// the same.
struct IndexImage {
  std::string bytes;
  // Offsets in the file of the columns that are known last.
  int64_t step_offset = -1;
  int64_t time_offset = -1;
  int64_t checksum_offset = -1;  // -1: there are none
  int64_t digest_offset = -1;
};

// An index that does not know yet where the datasets lie, and how long the
// files are.
struct IndexDraft {
  IndexImage image;
  ColumnCrc structure;         // of all columns but these two and the last
  std::vector<int32_t> order;  // of each row of the datasets, which it is
  // Offsets of these columns in the file; -1: they have no rows.
  int64_t dataset_offset = -1;
  int64_t file_bytes_offset = -1;
};

// Puts every array of `saved` under its key, and all that `saved` says.
// `saved.datasets` may be in any order. There is room for one checksum per
// block if `saved` says that it has some. `path` is for messages.
// Errors: InvalidArgument - a name is too long for HDF5, or a text has a NUL in
//   it; ResourceExhausted - more names in one group than HDF5 has a place for.
StatusOr<IndexDraft> DraftIndex(const std::string& path,
                                const SavedCheckpoint& saved);

// Adds the places of datasets and the lengths of files. Same as for the
// draft: all else that `saved` says.
IndexImage CompleteIndex(IndexDraft draft, const SavedCheckpoint& saved);

}  // namespace belay

#endif  // BELAY_STORAGE_INDEX_IMAGE_H_
