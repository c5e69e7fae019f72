// HDF5 files and datasets, and the types, property lists and dataspaces that
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

// The stored HDF5 type of each DType.
//
// Bytes are always written and read with the stored type as memory type, so
// HDF5 never converts. In this little-endian format, h5py shows f16 as float16,
// bf16 as float32 (a custom float), f8 as uint8 with the attribute
// "belay_dtype", bool as a NumPy bool, c64 and c128 as complex, and string as
// bytes.

// Returns the stored type. For kString: a UTF-8 string of `string_bytes` bytes,
// at least 1, padded with NUL. For structs: a compound type.
// Errors: InvalidArgument - an unknown dtype, invalid `fields`, or a string
//   that is too long.
StatusOr<Handle> FileType(const ElementType& type);

// Writes the attribute that names the dtype, if the type needs it.
Status NameDType(const Handle& dataset, DType dtype);

// Checks that a dataset has exactly this stored type.
// Errors: DataLoss - it has another one.
Status CheckStoredType(const Handle& dataset, const ElementType& type);

// A dataset as an array. Numbers of any byte order have the DType of their kind
// and size, and HDF5 converts them when it reads. Strings are scalars.
struct NativeArray {
  DType dtype = DType::kU8;
  Shape shape;
  // Why belay has no such array (then ignore dtype); else empty.
  std::string problem;
  int64_t bytes = 0;  // of its elements
  // The most bytes that its file, or the files that it refers to, store for the
  // elements. Equal to `bytes` if that is small.
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

// How to treat links into other files on the way to an object.
enum class OtherFiles : uint8_t {
  kRefused,   // values stored in other files are refused as well
  kFollowed,  // if the other files are regular
};

using Dims = absl::InlinedVector<hsize_t, 4>;

// Converts lengths to HDF5's type. None may be negative.
Dims ToDims(const Shape& shape);

// Returns an empty property list of a class such as H5P_FILE_ACCESS. Messages
// name `object`, here and below.
StatusOr<Handle> NewProperties(hid_t property_class, std::string_view object);

// Returns properties for H5P_DATASET_ACCESS or H5P_LINK_ACCESS that treat links
// into other files as given.
StatusOr<Handle> LinkAccess(hid_t property_class, OtherFiles others,
                            std::string_view object);

// Returns properties of groups, for H5P_GROUP_CREATE, or of the root group, for
// H5P_FILE_CREATE: no times, and an index if there are more than 8 links.
StatusOr<Handle> GroupProperties(hid_t property_class, std::string_view object);

// Returns properties of links with UTF-8 names.
StatusOr<Handle> LinkProperties(std::string_view object);

// Returns properties of datasets: no times, never filled; contiguous, or in
// chunks if `chunk` is not empty. Space is allocated at creation or, for chunks
// with filters, when they are written.
StatusOr<Handle> DatasetProperties(const Shape& chunk,
                                   const std::vector<Filter>& filters,
                                   std::string_view object);

// Makes `cached` with `make` unless it is already open, and returns its
// identifier.
template <typename Make>
StatusOr<hid_t> MakeOnce(Handle& cached, Make make) {
  if (cached.is_open()) return cached.get();
  StatusOr<Handle> made = make();
  if (!made.ok()) return made.status();
  cached = *std::move(made);
  return cached.get();
}

// Returns the dataspace of an array; scalar if it has no axes.
StatusOr<Handle> NewSpace(const Shape& shape, std::string_view object);

// Returns the dataspace of an array's dataset. HDF5 cannot store an empty
// string, so it gets the null dataspace.
StatusOr<Handle> ArraySpace(const Shape& shape, const ElementType& type,
                            std::string_view object);

// Selects the box in a dataspace with the same number of axes, or nothing if
// the box is empty.
Status SelectBox(const Handle& space, const Box& box);

// Opening and creating HDF5 files.
//
// One process creates files, with a serial driver. The parallel driver only
// opens existing files. Nothing in a file depends on the time, so the same
// calls produce the same bytes.

// Bytes that a new file reserves; 0 means HDF5's default. If metadata_bytes is
// about the size of all metadata (400 bytes per dataset), object headers are
// stored together, so that they are read and copied in one piece.
struct FileLayoutHint {
  int64_t metadata_bytes = 0;
  int64_t small_data_bytes = 0;  // arrays below this share blocks of this size
};

// Creates a file. With `is_there`, reuses an existing empty file, which keeps
// its attributes in the file system.
// Errors: AlreadyExists - it must be new; NotFound - no such directory;
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

// Opens a file that may be missing. If it is, the handle is not open. Passes no
// fault point.
Handle OpenIfThere(const std::string& path);

// Opens an existing file for reading and writing on all ranks of `comm`.
// Collective. Same on all ranks: path, hints. The Status is not agreed. `file`
// may be open even if this rank failed, so agree on file.is_open(). If all
// ranks have it open, all must Close() it. Otherwise no rank may close it,
// because closing communicates.
// Errors: as OpenFileReadOnly, of this rank.
Status OpenFileParallel(const std::string& path, MPI_Comm comm, MPI_Info hints,
                        Handle& file);

// Checks that HDF5 can write chunks with these filters.
// Errors: FailedPrecondition - HDF5 does not have one, or only for reading;
//   Internal.
Status CheckCanWrite(const std::vector<Filter>& filters);

// Checks that HDF5 can read chunks with these filters.
// Errors: FailedPrecondition - HDF5 does not have one, or only for writing;
//   Internal.
Status CheckCanRead(const std::vector<Filter>& filters);

// Groups, datasets, and the bytes in datasets.
//
// In:  paths such as "model/dense/kernel", relative to the root group; shapes
//      and boxes that the planner has checked.
// Out: objects without times, and the byte offset of every array in its file,
//      so that data can be written without HDF5.
// Does not depend on the meaning of an array.

// Groups, types and property lists that the objects of one file share. Making
// them anew costs as much as the dataset itself. Destroy the cache before the
// file is closed.
struct ObjectCache {
  absl::flat_hash_set<std::string> paths;       // groups that exist
  Handle parent;                                // the group of the last object
  Handle links;                                 // properties of links
  Handle groups;                                // properties of groups
  absl::flat_hash_map<Shape, Handle> creation;  // of datasets, by chunk shape
  absl::flat_hash_map<DType, Handle> types;     // of numbers
};

// The place of a new object: a group, and the name in that group.
struct Location {
  hid_t group;
  const char* name;
};

// Creates the missing groups above the last part of an object path. Returns the
// location, which borrows from `path` and `cache` and is valid until the next
// call.
// Errors: AlreadyExists, Internal - there is a dataset where a group is needed.
StatusOr<Location> FindLocation(const Handle& file, ObjectCache& cache,
                                const std::string& path);

// Creates a dataset and its parents. Allocates its bytes, but does not write
// them. Returns the offset of its first byte in the file. Elements follow
// densely in row-major order or, with chunks, chunk after chunk in row-major
// order, each of full size even at the edges. Returns -1 for an array without
// bytes, which has no storage, and for a dataset with filters, whose chunks are
// placed when they are written.
// Errors: AlreadyExists; Internal - also if HDF5 places chunks differently.
// Cost: about 20 us.
StatusOr<int64_t> CreateDataset(const Handle& file, ObjectCache& cache,
                                const DatasetSpec& spec);

// Returns the offset of an existing dataset, as CreateDataset does.
// Errors: NotFound; DataLoss - another type or shape, values in another file,
//   or a damaged file; Internal.
StatusOr<int64_t> FindDataset(const Handle& file, const DatasetSpec& spec);

// Checks that an open dataset has this type and shape.
// Errors: DataLoss; Internal.
Status CheckDataset(const Handle& dataset, const DatasetSpec& spec);

// Opens a dataset of a file that belay writes.
// Errors: NotFound; DataLoss; Internal.
StatusOr<Handle> OpenDataset(const Handle& file, std::string_view path);

// Opens a dataset for reading, in a file from any source.
// Errors: those of OpenDataset; DataLoss - its values are in another file.
StatusOr<Handle> OpenToRead(const Handle& file, std::string_view path,
                            OtherFiles others = OtherFiles::kRefused);

// Writes from all ranks together. Each rank writes the elements of its own box,
// dense and row-major at `data`, less than 2 GiB. The dataset has this type and
// contains the box. An empty box or string writes nothing. Collective. Same on
// all ranks: dataset and type. The Status is not agreed: a rank that fails
// before the write takes part with an empty box.
// Errors: ResourceExhausted; Internal.
Status WriteHyperslabTogether(const Handle& dataset, const Box& box,
                              const ElementType& type, const void* data);

// Reads the elements of a box to `data`, dense and row-major, less than 2 GiB.
// Errors: NotFound - no such dataset; DataLoss - another type or number of
//   axes, a damaged file, or values in another file; OutOfRange - the box is
//   not inside the array; Internal.
Status ReadHyperslab(const Handle& file, std::string_view path,
                     const ElementType& type, const Box& box, void* data,
                     OtherFiles others = OtherFiles::kRefused);

// Returns the shape of a dataset; no axes for a scalar or an empty string.
StatusOr<Shape> DatasetShape(const Handle& dataset);

}  // namespace belay::h5

#endif  // BELAY_HDF5_FILE_H_
