// Datasets of HDF5: creation, reading and writing of boxes, filters.

#ifndef BELAY_HDF5_DATASET_H_
#define BELAY_HDF5_DATASET_H_

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "hdf5/file.h"

namespace belay::h5 {

// Checks that chunks can pass these filters on their way to a file.
// Errors: FailedPrecondition - HDF5 does not have one, or only for reading;
//   Internal.
Status CheckCanWrite(const std::vector<Filter>& filters);

// Checks that chunks can pass these filters on their way back.
// Errors: FailedPrecondition - HDF5 does not have one; Internal.
Status CheckCanRead(const std::vector<Filter>& filters);

// Groups, datasets, and the bytes in datasets.
//
// In:  paths such as "model/dense/kernel", relative to the root group; shapes
//      and boxes that the planner has checked.
// Out: objects without times, and the byte offset of every array in its file,
//      so that data can be written without HDF5.
// Does not know what an array means.

// Groups, types and property lists that the objects of one file share. Making
// them anew costs as much as the dataset itself. Must be destroyed before the
// file is closed.
struct ObjectCache {
  absl::flat_hash_set<std::string> paths;       // groups that exist
  Handle parent;                                // the group of the last object
  Handle links;                                 // properties of links
  Handle groups;                                // properties of groups
  absl::flat_hash_map<Shape, Handle> creation;  // of datasets, by chunk shape
  absl::flat_hash_map<DType, Handle> types;     // of numbers
};

// The place of a new object: a group, and the name in it.
struct Location {
  hid_t group;
  const char* name;
};

// Creates the groups above the last part of an object path that are missing.
// Returns the location, which borrows from `path` and `cache` and holds
// until the next call.
// Errors: AlreadyExists, Internal - a dataset stands where a group is needed.
StatusOr<Location> FindLocation(const Handle& file, ObjectCache& cache,
                                const std::string& path);

// Creates a dataset with its parents; its bytes are allocated, but not written.
// Returns the offset of its first byte in the file: elements follow
// densely in row-major order or, with chunks, chunk after chunk in row-major
// order, each of full size also at the edges. Returns -1 for an array without
// bytes, which has no storage, and with filters, which give chunks their place
// as they are written.
// Errors: AlreadyExists; Internal - also if HDF5 places chunks differently.
// Cost: about 20 us.
StatusOr<int64_t> CreateDataset(const Handle& file, ObjectCache& cache,
                                const DatasetSpec& spec);

// Returns the offset of an existing dataset, as CreateDataset does.
// Errors: NotFound; DataLoss - another type or shape, values in another file,
//   or a damaged file; Internal.
StatusOr<int64_t> FindDataset(const Handle& file, const DatasetSpec& spec);

// Checks that an open dataset has the type and the shape.
// Errors: DataLoss; Internal.
Status CheckDataset(const Handle& dataset, const DatasetSpec& spec);

// Opens a dataset of a file that belay writes.
// Errors: NotFound; DataLoss; Internal.
StatusOr<Handle> OpenDataset(const Handle& file, std::string_view path);

// Opens a dataset of a file that anybody may have made, to read it.
// Errors: those of OpenDataset; DataLoss - it lies in another file.
StatusOr<Handle> OpenToRead(const Handle& file, std::string_view path,
                            OtherFiles others = OtherFiles::kRefused);

// Writes from all ranks at once, each the elements of its own box, dense and
// row-major at `data`, less than 2 GiB. The dataset has that type, and the box
// lies inside it. An empty box or text writes nothing. Collective. Same on all
// ranks: dataset and type. The Status is not agreed: a rank that fails before
// the write takes part with nothing.
// Errors: ResourceExhausted; Internal.
Status WriteHyperslabTogether(const Handle& dataset, const Box& box,
                              const ElementType& type, const void* data);

// Reads the elements of a box to `data`, dense and row-major, less than 2 GiB.
// Errors: NotFound - no such dataset; DataLoss - another type or number of
//   axes, a damaged file, or values in another one; OutOfRange - the box leaves
//   the array; Internal.
Status ReadHyperslab(const Handle& file, std::string_view path,
                     const ElementType& type, const Box& box, void* data,
                     OtherFiles others = OtherFiles::kRefused);

// Returns the shape of a dataset; no axes for a scalar and for an empty text.
StatusOr<Shape> DatasetShape(const Handle& dataset);

}  // namespace belay::h5

#endif  // BELAY_HDF5_DATASET_H_
