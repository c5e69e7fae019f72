// The datasets of a file, whoever wrote it.

#ifndef BELAY_HDF5_DATASET_LISTING_H_
#define BELAY_HDF5_DATASET_LISTING_H_

#include <string>
#include <vector>

#include "belay/status.h"
#include "hdf5/handle.h"
#include "hdf5/native_type.h"

namespace belay::h5 {

struct ListedDataset {
  std::string path;  // without a slash before it
  NativeArray array;
};

// Lists the datasets that are reached from the root group by links of any kind,
// under each of their paths, ascending. A link that leads nowhere is listed
// with a problem; one that leads back to a group above it ends there. Local.
// Errors: DataLoss - a damaged file; ResourceExhausted - links make too
//   many paths to the same groups; Internal.
StatusOr<std::vector<ListedDataset>> ListDatasets(const Handle& file);

}  // namespace belay::h5

#endif  // BELAY_HDF5_DATASET_LISTING_H_
