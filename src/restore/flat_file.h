// Reads HDF5 files that other programs wrote. Their arrays are named by the
// paths of their datasets. There is no plan, index or checksum: every rank
// opens the file in a child process (hdf5/guarded_file.h) and reads its boxes,
// each within `deadline_seconds` (0: no limit).

#ifndef BELAY_RESTORE_FLAT_FILE_H_
#define BELAY_RESTORE_FLAT_FILE_H_

#include <span>

#include "belay/extend/shard.h"
#include "belay/status.h"
#include "core/element_conversion.h"
#include "plan/stored_values.h"

namespace belay {

// A dataset, which is read by its path, such as "model/dense/kernel".
struct FlatArray {
  std::string key;
  DType dtype = DType::kU8;
  Shape shape;
  // Why it cannot be read; empty: it can. If set, dtype is meaningless.
  std::string problem;
  // Why no memory may be allocated for it; empty: memory may be allocated. It
  // can still be read into memory that the program provides.
  std::string too_large;
};

// Lists the datasets of an HDF5 file, including those behind links, in
// ascending order of keys.
// Errors: NotFound; PermissionDenied; DataLoss - damaged, or no HDF5 file;
//   ResourceExhausted - links make too many paths to the same groups, or
//   HDF5 takes too long or too much memory for such a file;
//   DeadlineExceeded; Internal.
StatusOr<std::vector<FlatArray>> ListFlatFile(const std::string& path,
                                              double deadline_seconds = 0);

// Reads the box of every shard into its memory, converted from `forms` unless
// that is empty. Elements that are not stored keep their values. Reads nothing
// unless all shards fit. Sets `staged_bytes`, unless null, to the peak memory
// of conversions, and `losses`, unless empty, to the losses per shard.
// Errors: NotFound - no such file or dataset; FailedPrecondition - another
//   dtype or shape, or a dataset that is no array for belay; InvalidArgument,
//   OutOfRange - a box outside its array; otherwise as above.
Status ReadFlatFile(const std::string& path, const std::vector<Shard>& shards,
                    const std::vector<StoredForm>& forms = {},
                    int64_t* staged_bytes = nullptr,
                    double deadline_seconds = 0,
                    std::span<ConversionLosses> losses = {});

}  // namespace belay

#endif  // BELAY_RESTORE_FLAT_FILE_H_
