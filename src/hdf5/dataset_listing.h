// The datasets of a file, the identity of an object, and the pieces of a
// virtual dataset.

#ifndef BELAY_HDF5_DATASET_LISTING_H_
#define BELAY_HDF5_DATASET_LISTING_H_

#include "hdf5/types.h"

namespace belay::h5 {

// Identifies an object among all open files.
using Identity = std::pair<unsigned long, haddr_t>;

StatusOr<Identity> FindIdentity(const Handle& object);

// H5Pget_virtual_filename or H5Pget_virtual_dsetname.
using GetSourceName = ssize_t (*)(hid_t, size_t, char*, size_t);

// Reads the file or the path of one source of a virtual dataset with these
// creation properties. HDF5 stores "%%" for "%".
// Errors: `code_of_pattern` - another "%": the name stands for many sources.
StatusOr<std::string> ReadSourceName(GetSourceName get, const Handle& dataset,
                                     const Handle& properties, size_t index,
                                     absl::StatusCode code_of_pattern);

// Returns the pieces of a virtual dataset in its order; none of another
// dataset. A piece shows its dataset from the first element on, as many
// elements as its box has. Errors: DataLoss - a piece fills no box, begins
// elsewhere in its dataset, or
//   has a pattern for a name.
StatusOr<std::vector<VirtualPiece>> ReadPieces(const Handle& dataset);

struct ListedDataset {
  std::string path;  // without a slash before it
  NativeArray array;
};

template <typename Archive>
void Fields(Archive& archive, ListedDataset& dataset) {
  archive(dataset.path, dataset.array);
}

// Lists the datasets that are reached from the root group by links of any kind,
// under each of their paths, ascending. A link that leads nowhere is listed
// with a problem; one that leads back to a group above it ends there.
// Errors: DataLoss - a damaged file; ResourceExhausted - links make too
//   many paths to the same groups; Internal.
StatusOr<std::vector<ListedDataset>> ListDatasets(const Handle& file);

}  // namespace belay::h5

#endif  // BELAY_HDF5_DATASET_LISTING_H_
