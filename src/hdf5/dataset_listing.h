// The datasets of a file, the identity of an object, and the pieces of a
// virtual dataset.

#ifndef BELAY_HDF5_DATASET_LISTING_H_
#define BELAY_HDF5_DATASET_LISTING_H_

#include <hdf5.h>

#include <string>
#include <utility>
#include <vector>

#include "belay/status.h"
#include "format/element_type.h"
#include "hdf5/handle.h"
#include "hdf5/types.h"

namespace belay::h5 {

// Which object of which file it is.

// Tells an object from all others of the files that are open.
using Identity = std::pair<unsigned long, haddr_t>;

StatusOr<Identity> IdentityOf(const Handle& object);

// What a virtual dataset is put together from.

// Returns the pieces of a virtual dataset, in its order; none of another one.
// The first elements of the dataset of a piece, as many as its box has, are
// those of the box: all of them if it has this shape.
// Errors: DataLoss - a piece fills no box, or begins elsewhere in its dataset.
StatusOr<std::vector<VirtualPiece>> PiecesOf(const Handle& dataset);

// The datasets of a file, whoever wrote it.

struct ListedDataset {
  std::string path;  // without a slash before it
  NativeArray array;
};

// Lists the datasets that are reached from the root group by links of any kind,
// under each of their paths, ascending. A link that leads nowhere is listed
// with a problem; one that leads back to a group above it ends there.
// Errors: DataLoss - a damaged file; ResourceExhausted - links make too
//   many paths to the same groups; Internal.
StatusOr<std::vector<ListedDataset>> ListDatasets(const Handle& file);

}  // namespace belay::h5

#endif  // BELAY_HDF5_DATASET_LISTING_H_
