// Reads datasets written by any program, with HDF5's conversions.

#ifndef BELAY_HDF5_NATIVE_READ_H_
#define BELAY_HDF5_NATIVE_READ_H_

#include "belay/arrays/box.h"
#include "belay/arrays/dtype.h"
#include "hdf5/file.h"
#include "hdf5/handle.h"

namespace belay::h5 {

// Reads the elements of a box to `data`, dense and row-major, whatever their
// byte order, chunks and filters. `dtype` is the one from DescribeDataset, but
// not kString. The box is inside the dataset.
// Errors: DataLoss - a damaged file; ResourceExhausted; Internal - also for a
//   filter that HDF5 does not have.
Status ReadNative(const Handle& dataset, DType dtype, const Box& box,
                  void* data);

// Reads a string of fixed or variable length, without its padding. A string
// without a value is empty.
// Errors: as ReadNative.
StatusOr<std::string> ReadNativeText(const Handle& dataset);

// Checks that all sources of a virtual dataset exist, and recursively their own
// sources, because HDF5 reads zeros for missing sources. Other datasets pass.
// `file` is the path of the file that contains the dataset.
// Errors: DataLoss - a source is missing or is its own source; Unimplemented -
//   sources are given by a pattern, or are nested more than 16 deep.
Status CheckSources(const Handle& dataset, const std::string& file);

// Returns the most bytes that the file stores for a dataset, before filters are
// undone. If the dataset's bytes are in other files, returns the bytes of these
// files. Missing files count as 0 bytes, and so do all sources if one is given
// by a pattern.
// Errors: DataLoss - a damaged file; Internal.
StatusOr<int64_t> StoredBytes(const Handle& dataset);

// Identifies an object among all open files.
using Identity = std::pair<unsigned long, haddr_t>;

StatusOr<Identity> FindIdentity(const Handle& object);

// H5Pget_virtual_filename or H5Pget_virtual_dsetname.
using GetSourceName = ssize_t (*)(hid_t, size_t, char*, size_t);

// Reads the file name or the path of a source of the virtual dataset with these
// creation properties. HDF5 stores "%%" for "%".
// Errors: `code_of_pattern` - a single "%": the name is a pattern for many
//   sources.
StatusOr<std::string> ReadSourceName(GetSourceName get, const Handle& dataset,
                                     const Handle& properties, size_t index,
                                     absl::StatusCode code_of_pattern);

// Returns the pieces of a virtual dataset in its order; none for other
// datasets. A piece shows its source from the first element on, with as many
// elements as its box.
// Errors: DataLoss - a piece is not a box, does not begin at the first element
//   of its source, or has a pattern as its name.
StatusOr<std::vector<VirtualPiece>> ReadPieces(const Handle& dataset);

struct ListedDataset {
  std::string path;  // without a leading slash
  NativeArray array;
};

template <typename Archive>
void Fields(Archive& archive, ListedDataset& dataset) {
  archive(dataset.path, dataset.array);
}

// Lists the datasets that are reachable from the root group by links of any
// kind, under each of their paths, ascending. A dangling link is listed with a
// problem. A link back to a group that contains it is not followed.
// Errors: DataLoss - a damaged file; ResourceExhausted - too many paths lead to
//   the same groups, or groups are nested too deep; Internal.
StatusOr<std::vector<ListedDataset>> ListDatasets(const Handle& file);

}  // namespace belay::h5

#endif  // BELAY_HDF5_NATIVE_READ_H_
