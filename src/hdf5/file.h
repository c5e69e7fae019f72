// Files and datasets of HDF5, and the types, property lists and dataspaces that
// every object needs.

#ifndef BELAY_HDF5_FILE_H_
#define BELAY_HDF5_FILE_H_

#include <mpi.h>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "core/agreed.h"
#include "core/process.h"
#include "format/element_type.h"
#include "hdf5/handle.h"

namespace belay::h5 {

// The HDF5 type of each DType, as it is stored.
//
// Bytes are always written and read with the stored type as memory type, so
// HDF5 never converts. On this little-endian format h5py shows: f16 float16,
// bf16 float32 (a custom float), f8 uint8 with the attribute "belay_dtype",
// bool a numpy bool, c64 and c128 complex, string bytes.

// Returns the stored type. For kString: UTF-8 text of `string_bytes`
// bytes, at least 1, padded with NUL. For structs: a compound type.
// Errors: InvalidArgument - an unknown dtype, or a text that names no fields.
StatusOr<Handle> FileType(const ElementType& type);

// Writes the attribute to a dataset whose type needs it.
Status NameDType(const Handle& dataset, DType dtype);

// Checks that a dataset has exactly that stored type.
// Errors: DataLoss - it has another one.
Status CheckStoredType(const Handle& dataset, const ElementType& type);

// A dataset as an array. Numbers of any byte order have the DType of their kind
// and size, and HDF5 converts them when it reads; texts are scalars.
struct NativeArray {
  DType dtype = DType::kU8;
  Shape shape;
  // Says why belay has no such array (then ignore dtype); else empty.
  std::string problem;
  int64_t bytes = 0;  // of its elements
  // The most bytes that its file, or those that it names, store for them. Equal
  // to `bytes` if these are few.
  int64_t stored_bytes = 0;
};

template <typename Archive>
void Fields(Archive& archive, NativeArray& array) {
  archive(array.dtype, array.shape, array.problem, array.bytes,
          array.stored_bytes);
}

// Describes a dataset.
// Errors: DataLoss - a damaged file; Internal.
StatusOr<NativeArray> DescribeDataset(const Handle& dataset);

// The treatment of links into other files on the way to an object.
enum class OtherFiles : uint8_t {
  kRefused,   // also values that lie in other files
  kFollowed,  // into regular files
};

using Dims = absl::InlinedVector<hsize_t, 4>;

// Returns the lengths as HDF5 wants them. None may be negative.
Dims ToDims(const Shape& shape);

// Returns an empty property list of a class such as H5P_FILE_ACCESS.
// `object` is what messages name, here and below.
StatusOr<Handle> NewProperties(hid_t property_class, std::string_view object);

// Returns properties for H5P_DATASET_ACCESS or H5P_LINK_ACCESS that follow
// links so.
StatusOr<Handle> LinkAccess(hid_t property_class, OtherFiles others,
                            std::string_view object);

// Returns properties of groups, for H5P_GROUP_CREATE, or of the root group, for
// H5P_FILE_CREATE: no times, an index as soon as there are more than 8 links.
StatusOr<Handle> GroupProperties(hid_t property_class, std::string_view object);

// Returns properties of links with UTF-8 names.
StatusOr<Handle> LinkProperties(std::string_view object);

// Returns properties of datasets: no times, never filled; contiguous, or in
// chunks if `chunk` is not empty. Allocated at once; chunks with filters when
// they are written.
StatusOr<Handle> DatasetProperties(const Shape& chunk,
                                   const std::vector<Filter>& filters,
                                   std::string_view object);

// Makes `cached` by `make` unless it is open already, and returns its
// identifier.
template <typename Make>
StatusOr<hid_t> MakeOnce(Handle& cached, Make make) {
  if (cached.is_open()) return cached.get();
  StatusOr<Handle> made = make();
  if (!made.ok()) return made.status();
  cached = *std::move(made);
  return cached.get();
}

// Returns the dataspace of an array; scalar for no axes.
StatusOr<Handle> NewSpace(const Shape& shape, std::string_view object);

// Returns the dataspace of the dataset of an array: an empty string has no
// place in HDF5 and gets the null dataspace.
StatusOr<Handle> ArraySpace(const Shape& shape, const ElementType& type,
                            std::string_view object);

// Selects the box in a dataspace with as many axes, or nothing if it is empty.
Status SelectBox(const Handle& space, const Box& box);

// Opening and creating HDF5 files.
//
// Files are made by one process with the serial driver; the parallel driver
// only ever opens a file that exists. Nothing in a file depends on the time,
// so the same calls make the same bytes.

// The bytes that a new file reserves; 0 leaves HDF5's default. About the
// metadata of all objects (400 bytes a dataset) keeps object headers together,
// so that they are read and copied in one piece.
struct FileLayoutHint {
  int64_t metadata_bytes = 0;
  int64_t small_data_bytes = 0;  // arrays below this share blocks of this size
};

// Creates a file. With `is_there` an empty one is kept, with what the file
// system knows of it.
// Errors: AlreadyExists - it was to be new; NotFound - no such directory;
//   PermissionDenied; ResourceExhausted; Internal.
StatusOr<Handle> CreateFile(const std::string& path,
                            const FileLayoutHint& hint = {},
                            bool is_there = false);

// Opens a file for reading.
// Errors: NotFound; PermissionDenied; DataLoss - truncated, damaged, or no HDF5
//   file at all; InvalidArgument - not a regular file, or a symbolic link;
//   Internal.
StatusOr<Handle> OpenFileReadOnly(const std::string& path,
                                  Links links = Links::kRefused);

// Opens a file that may be missing: then the handle is not open. Passes no
// fault point.
Handle OpenIfThere(const std::string& path);

// Opens an existing file for reading and writing on all ranks of `comm`.
// Collective. Same on all ranks: path, hints. The Status is not agreed. `file`
// may be open although this rank failed: agree on file.is_open(). If all ranks
// have it, all Close() it; if not, all let go of it, for closing communicates.
// Errors: as OpenFileReadOnly, of this rank.
Status OpenFileParallel(const std::string& path, MPI_Comm comm, MPI_Info hints,
                        Handle& file);

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

#endif  // BELAY_HDF5_FILE_H_
