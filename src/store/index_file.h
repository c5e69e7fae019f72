// index.h5: the array table, the checksums, and every array by its key.
//
// Written once by rank 0 after all data is in place, read by rank 0 before
// anything else. Serial HDF5 only.

#ifndef BELAY_STORE_INDEX_FILE_H_
#define BELAY_STORE_INDEX_FILE_H_

#include <cstdint>
#include <string>

#include "belay/status.h"
#include "model/plan.h"

namespace belay {

// The bytes of an index, so that the next one of the same plan needs no HDF5:
// only step, checksums and their digest are put in their places.
struct IndexImage {
  std::string bytes;
  int64_t step_offset = -1;
  int64_t checksum_offset = -1;  // -1: there are none
  int64_t digest_offset = -1;
};

// Writes the index of `saved` to the new file `path`, and syncs it if
// `durable`. `saved.datasets` may be in any order; offsets are known. With
// `image`, also returns the bytes there. Local. Errors: those of h5 and of
// PosixFile.
Status WriteIndex(const std::string& path, const SavedCheckpoint& saved,
                  bool durable, IndexImage* image);

// Writes the new file `path` from an image. Local. `checksums` has as many
// entries as the index that the image was made from.
Status WriteIndexFromImage(const std::string& path, int64_t step,
                           const std::vector<uint32_t>& checksums, bool durable,
                           IndexImage& image);

// Reads and checks the index in the step directory `directory`. Local.
// Errors: NotFound - no index; DataLoss - truncated, wrong magic, damaged;
//   Unimplemented - a newer major version.
StatusOr<SavedCheckpoint> ReadIndex(const std::string& directory);

// Checks that the data files exist and have their size. Local.
// Errors: DataLoss - one is missing, or shorter or longer.
Status CheckDataFiles(const std::string& directory,
                      const SavedCheckpoint& saved);

}  // namespace belay

#endif  // BELAY_STORE_INDEX_FILE_H_
