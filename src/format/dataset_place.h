// Whether a file can hold what an index says of it.

#ifndef BELAY_FORMAT_DATASET_PLACE_H_
#define BELAY_FORMAT_DATASET_PLACE_H_

#include <cstdint>
#include <string>

#include "belay/arrays/box.h"
#include "belay/status.h"
#include "plan/plan.h"

namespace belay {

// Whether so many elements of this size have a number of bytes.
bool HasBytes(const Shape& shape, int64_t element_size);

// Whether a file of this length has room for a dataset where it is said to lie;
// with filters, for its chunks wherever they are.
bool IsInFile(const StoredDataset& dataset, int64_t element_size,
              int64_t file_bytes, bool is_filtered);

// Checks that no two files have one name, and that no two datasets whose places
// are known have a byte in common: bytes that are stored once count once,
// whoever names them. `path` is that of the index. Requires datasets for
// which IsInFile holds.
// Errors: DataLoss - they do.
Status CheckBytesCountOnce(const SavedCheckpoint& saved,
                           const std::string& path);

// Checks that the files can hold what the datasets with filters claim, before
// anybody takes memory for that. Several may claim the same bytes, which only
// the files tell (CheckStoredChunks). `path` is that of the index.
// Requires datasets of existing arrays and files. Errors: DataLoss - a file is
// too short, however well its bytes compress.
Status CheckFilteredFit(const SavedCheckpoint& saved, const std::string& path);

}  // namespace belay

#endif  // BELAY_FORMAT_DATASET_PLACE_H_
