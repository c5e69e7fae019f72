// HDF5 files that other programs wrote: arrays by the path of their dataset.
//
// No plan, no index and no checksums: every rank opens the file for itself, in
// a process of its own (hdf5/guarded_file.h), and reads its own boxes. Nothing
// may take longer than `deadline_seconds`; 0: no limit.

#ifndef BELAY_RESTORE_FLAT_FILE_H_
#define BELAY_RESTORE_FLAT_FILE_H_

#include <span>
#include <string>
#include <vector>

#include "belay/arrays/shard.h"
#include "belay/status.h"
#include "core/element_conversion.h"
#include "plan/stored_values.h"

namespace belay {

// A dataset that can be read by its path, "model/dense/kernel".
struct FlatArray {
  std::string key;
  DType dtype = DType::kU8;
  Shape shape;
  // Why it cannot be read; empty if it can. Then dtype says nothing.
  std::string problem;
  // Why no memory is taken for its length; empty if it can be. Into memory that
  // the program has, it can be read nevertheless.
  std::string too_large;
};

// Lists the datasets of an HDF5 file, also behind links, ascending by key.
// Errors: NotFound; PermissionDenied; DataLoss - damaged, or no HDF5 file;
//   ResourceExhausted - links make too many paths to the same groups, or
//   HDF5 takes too long or too much memory for such a file;
//   DeadlineExceeded; Internal.
StatusOr<std::vector<FlatArray>> ListFlatFile(const std::string& path,
                                              double deadline_seconds = 0);

// Reads the box of every shard into its memory, converted from its form if
// there are `forms`; what is not stored is left as it is. Nothing is
// read before all shards have been found to fit. `staged_bytes`, unless null,
// gets the most memory that converting took; `losses`, unless empty, what it
// lost of each shard. Errors: NotFound - no such file or
// dataset; FailedPrecondition - another
//   dtype or shape, or a dataset that belay has no array for; InvalidArgument,
//   OutOfRange - a box outside its array; otherwise as above.
Status ReadFlatFile(const std::string& path, const std::vector<Shard>& shards,
                    const std::vector<StoredForm>& forms = {},
                    int64_t* staged_bytes = nullptr,
                    double deadline_seconds = 0,
                    std::span<ConversionLosses> losses = {});

}  // namespace belay

#endif  // BELAY_RESTORE_FLAT_FILE_H_
