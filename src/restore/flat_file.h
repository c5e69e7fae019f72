// Foreign HDF5 files, whose arrays are named by the paths of their datasets.
// Without plan, index and checksums, every rank opens the file in a child
// process (hdf5/guarded_file.h), and reads its own boxes, each within
// `deadline_seconds` (0: no limit).

#ifndef BELAY_RESTORE_FLAT_FILE_H_
#define BELAY_RESTORE_FLAT_FILE_H_

#include <span>

#include "belay/extend/shard.h"
#include "belay/status.h"
#include "core/element_conversion.h"
#include "plan/stored_values.h"

namespace belay {

// A dataset that can be read by its path, "model/dense/kernel".
struct FlatArray {
  std::string key;
  DType dtype = DType::kU8;
  Shape shape;
  // The reason if it cannot be read; dtype is meaningless then.
  std::string problem;
  // The reason if no memory may be allocated for it. It can still be
  // read into memory of the program.
  std::string too_large;
};

// Lists the datasets of an HDF5 file, also behind links, ascending by key.
// Errors: NotFound; PermissionDenied; DataLoss - damaged, or no HDF5 file;
//   ResourceExhausted - links make too many paths to the same groups, or
//   HDF5 takes too long or too much memory for such a file;
//   DeadlineExceeded; Internal.
StatusOr<std::vector<FlatArray>> ListFlatFile(const std::string& path,
                                              double deadline_seconds = 0);

// Reads the box of every shard into its memory, converted from `forms` unless
// empty; elements that are not stored keep their values. Reads nothing before
// all shards are known to fit. `staged_bytes`, unless null, gets the peak
// memory of conversions; `losses`, unless empty, the losses by shard.
// Errors: NotFound - no such file or dataset; FailedPrecondition - another
//   dtype or shape, or a dataset that belay has no array for; InvalidArgument,
//   OutOfRange - a box outside its array; otherwise as above.
Status ReadFlatFile(const std::string& path, const std::vector<Shard>& shards,
                    const std::vector<StoredForm>& forms = {},
                    int64_t* staged_bytes = nullptr,
                    double deadline_seconds = 0,
                    std::span<ConversionLosses> losses = {});

}  // namespace belay

#endif  // BELAY_RESTORE_FLAT_FILE_H_
