#include "hdf5/file.h"

#include <sys/stat.h>

#include "core/status_macros.h"
#include "core/text.h"
#include "format/file_metadata.h"

namespace belay::h5 {
namespace {

constexpr unsigned kMinIndexedLinks = 6;

Status NoTimes(const Handle& properties) {
  return Check(H5Pset_obj_track_times(properties.get(), false),
               "set time tracking", properties.name());
}

// A negative result refuses a link into another file.
herr_t RefuseLink(const char*, const char*, const char*, const char*, unsigned*,
                  hid_t, void*) {
  return -1;
}

// HDF5 also looks for a link's file in the directory of the file with the link.
herr_t RefusePipes(const char* from, const char*, const char* to, const char*,
                   unsigned*, hid_t, void*) {
  const std::string parent(from);
  const std::string beside = parent.substr(0, parent.rfind('/') + 1) + to;
  for (const std::string& path : {beside, std::string(to)}) {
    struct stat stat;
    if (::stat(path.c_str(), &stat) == 0 && !S_ISREG(stat.st_mode)) return -1;
  }
  return 0;
}

}  // namespace

Dims ToDims(const Shape& shape) { return Dims(shape.begin(), shape.end()); }

StatusOr<Handle> NewProperties(hid_t property_class, std::string_view object) {
  return Own(H5Pcreate(property_class), "create property list", object);
}

StatusOr<Handle> GroupProperties(hid_t property_class,
                                 std::string_view object) {
  BELAY_ASSIGN_OR_RETURN(Handle properties,
                         NewProperties(property_class, object));
  BELAY_RETURN_IF_ERROR(NoTimes(properties));
  BELAY_RETURN_IF_ERROR(
      Check(H5Pset_link_phase_change(properties.get(), kMaxCompactLinks,
                                     kMinIndexedLinks),
            "set link storage", object));
  return properties;
}

StatusOr<Handle> LinkAccess(hid_t property_class, OtherFiles others,
                            std::string_view object) {
  BELAY_ASSIGN_OR_RETURN(Handle access, NewProperties(property_class, object));
  BELAY_RETURN_IF_ERROR(Check(
      H5Pset_elink_cb(access.get(),
                      others == OtherFiles::kRefused ? RefuseLink : RefusePipes,
                      nullptr),
      "set link access of", object));
  return access;
}

StatusOr<Handle> LinkProperties(std::string_view object) {
  BELAY_ASSIGN_OR_RETURN(Handle properties,
                         NewProperties(H5P_LINK_CREATE, object));
  BELAY_RETURN_IF_ERROR(
      Check(H5Pset_char_encoding(properties.get(), H5T_CSET_UTF8),
            "set link encoding", object));
  return properties;
}

StatusOr<Handle> DatasetProperties(const Shape& chunk,
                                   const std::vector<Filter>& filters,
                                   std::string_view object) {
  BELAY_ASSIGN_OR_RETURN(Handle properties,
                         NewProperties(H5P_DATASET_CREATE, object));
  const hid_t id = properties.get();
  BELAY_RETURN_IF_ERROR(NoTimes(properties));
  if (!chunk.empty()) {
    const int ndim = static_cast<int>(chunk.size());
    BELAY_RETURN_IF_ERROR(Check(H5Pset_chunk(id, ndim, ToDims(chunk).data()),
                                "set chunk shape", object));
  }
  for (const Filter& filter : filters) {
    // A chunk that a filter would enlarge is stored without the filter.
    BELAY_RETURN_IF_ERROR(
        Check(H5Pset_filter(id, filter.id, H5Z_FLAG_OPTIONAL,
                            filter.parameters.size(), filter.parameters.data()),
              "set filter", object));
  }
  // The size of a filtered chunk is not known until it is written. A fill value
  // would make HDF5 write all chunks at creation.
  const H5D_alloc_time_t when =
      filters.empty() ? H5D_ALLOC_TIME_EARLY : H5D_ALLOC_TIME_INCR;
  BELAY_RETURN_IF_ERROR(
      Check(H5Pset_alloc_time(id, when), "set allocation time", object));
  BELAY_RETURN_IF_ERROR(Check(H5Pset_fill_time(id, H5D_FILL_TIME_NEVER),
                              "set fill time", object));
  return properties;
}

StatusOr<Handle> NewSpace(const Shape& shape, std::string_view object) {
  constexpr std::string_view kSite = "create dataspace";
  if (shape.empty()) return Own(H5Screate(H5S_SCALAR), kSite, object);
  const int ndim = static_cast<int>(shape.size());
  return Own(H5Screate_simple(ndim, ToDims(shape).data(), nullptr), kSite,
             object);
}

StatusOr<Handle> ArraySpace(const Shape& shape, const ElementType& type,
                            std::string_view object) {
  const bool empty_text =
      type.dtype == DType::kString && type.string_bytes == 0;
  if (!empty_text) return NewSpace(DatasetAxes(type, shape), object);
  return Own(H5Screate(H5S_NULL), "create dataspace", object);
}

Status SelectBox(const Handle& space, const Box& box) {
  const hid_t id = space.get();
  if (IsEmpty(box)) {
    return Check(H5Sselect_none(id), "select nothing of", space.name());
  }
  if (box.shape.empty()) {
    return Check(H5Sselect_all(id), "select all of", space.name());
  }
  return Check(
      H5Sselect_hyperslab(id, H5S_SELECT_SET, ToDims(box.offset).data(),
                          nullptr, ToDims(box.shape).data(), nullptr),
      "select box of", space.name());
}

// --- File ---

namespace {

Status SetBounds(hid_t access, const std::string& path) {
  return Check(H5Pset_libver_bounds(access, H5F_LIBVER_V110, H5F_LIBVER_V110),
               "set format version", path);
}

Status SetLayoutHint(hid_t access, const FileLayoutHint& hint,
                     const std::string& path) {
  if (hint.metadata_bytes > 0) {
    const auto bytes = static_cast<hsize_t>(hint.metadata_bytes);
    BELAY_RETURN_IF_ERROR(Check(H5Pset_meta_block_size(access, bytes),
                                "set metadata block size", path));
  }
  if (hint.small_data_bytes > 0) {
    const auto bytes = static_cast<hsize_t>(hint.small_data_bytes);
    BELAY_RETURN_IF_ERROR(Check(H5Pset_small_data_block_size(access, bytes),
                                "set data block size", path));
  }
  return absl::OkStatus();
}

// With this close degree, closing a file while an object in it is open fails.
StatusOr<Handle> WriterAccess(const FileLayoutHint& hint,
                              const std::string& path) {
  BELAY_ASSIGN_OR_RETURN(Handle access, NewProperties(H5P_FILE_ACCESS, path));
  BELAY_RETURN_IF_ERROR(SetBounds(access.get(), path));
  BELAY_RETURN_IF_ERROR(UseWriterDriver(access.get(), path));
  BELAY_RETURN_IF_ERROR(
      Check(H5Pset_fclose_degree(access.get(), H5F_CLOSE_SEMI),
            "set close degree", path));
  BELAY_RETURN_IF_ERROR(SetLayoutHint(access.get(), hint, path));
  return access;
}

// HDF5 would wait for the other end of a pipe, and all ranks with it.
Status CheckRegular(const std::string& path, Links links) {
  struct stat stat;
  if (!AreFollowed(links) && ::lstat(path.c_str(), &stat) == 0 &&
      S_ISLNK(stat.st_mode)) {
    return IsSymbolicLink("open file", path);
  }
  if (::stat(path.c_str(), &stat) != 0 || S_ISREG(stat.st_mode) ||
      S_ISDIR(stat.st_mode)) {
    return absl::OkStatus();  // HDF5 reports any other problem
  }
  return absl::InvalidArgumentError(
      Cat("open file \"", path, "\": not a regular file"));
}

StatusOr<Handle> ReaderAccess(const std::string& path) {
  // Linked files stay open as long as the file that has the links.
  constexpr unsigned kLinkedFiles = 16;
  BELAY_ASSIGN_OR_RETURN(Handle access, NewProperties(H5P_FILE_ACCESS, path));
  BELAY_RETURN_IF_ERROR(
      Check(H5Pset_elink_file_cache_size(access.get(), kLinkedFiles),
            "set cache of linked files", path));
  return access;
}

}  // namespace

StatusOr<Handle> CreateFile(const std::string& path, const FileLayoutHint& hint,
                            bool is_there) {
  InitLibrary();
  BELAY_ASSIGN_OR_RETURN(const Handle access, WriterAccess(hint, path));
  BELAY_ASSIGN_OR_RETURN(const Handle creation,
                         GroupProperties(H5P_FILE_CREATE, path));
  const unsigned flags = is_there ? H5F_ACC_TRUNC : H5F_ACC_EXCL;
  return Own(H5Fcreate(path.c_str(), flags, creation.get(), access.get()),
             "create file", path);
}

StatusOr<Handle> OpenFileReadOnly(const std::string& path, Links links) {
  InitLibrary();
  BELAY_RETURN_IF_ERROR(CheckRegular(path, links));
  BELAY_ASSIGN_OR_RETURN(const Handle access, ReaderAccess(path));
  return Own(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access.get()), "open file",
             path);
}

Handle OpenIfThere(const std::string& path) {
  InitLibrary();
  if (!CheckRegular(path, Links::kFollowed).ok()) return Handle();
  const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
  Handle file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, access), path);
  H5Pclose(access);
  H5Eclear2(H5E_DEFAULT);
  return file;
}

// A rank with an injected fault still takes part in every call that
// communicates, and keeps the file for the collective close. Collective
// metadata reads stay off: they are broken in HDF5 1.10.5 to 1.10.8.
Status OpenFileParallel(const std::string& path, MPI_Comm comm, MPI_Info hints,
                        Handle& file) {
  InitLibrary();
  const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
  Status first = Judge(access >= 0, "create property list", path);
  first.Update(
      Check(H5Pset_fapl_mpio(access, comm, hints), "set MPI-IO driver", path));
  first.Update(SetBounds(access, path));
  first.Update(Check(H5Pset_coll_metadata_write(access, true),
                     "set collective metadata", path));
  file =
      Handle(H5Fopen(path.c_str(), H5F_ACC_RDWR, access), path, AtEnd::kForget);
  first.Update(Judge(file.is_open(), "open file", path));
  first.Update(Check(H5Pclose(access), "close property list", path));
  return first;
}

// --- Filters ---

namespace {

// Checks that HDF5 has these filters, and that each can do what `need` says.
Status CheckCan(const std::vector<Filter>& filters, unsigned need,
                std::string_view otherwise) {
  InitLibrary();
  for (const Filter& filter : filters) {
    const std::string name = Cat("filter ", filter.id);
    BELAY_ASSIGN_OR_RETURN(
        const int64_t is_there,
        Number(H5Zfilter_avail(filter.id), "look for", name));
    if (is_there == 0) {
      return absl::FailedPreconditionError(
          Cat("HDF5 does not have ", name,
              ": install its plugin, and set HDF5_PLUGIN_PATH to where it is "
              "(H5Zregister in the program is not enough)"));
    }
    unsigned can = 0;
    BELAY_RETURN_IF_ERROR(
        Check(H5Zget_filter_info(filter.id, &can), "describe", name));
    if ((can & need) == 0) {
      return absl::FailedPreconditionError(
          Cat("HDF5 has ", name, " only for ", otherwise));
    }
  }
  return absl::OkStatus();
}

}  // namespace

Status CheckCanWrite(const std::vector<Filter>& filters) {
  return CheckCan(filters, H5Z_FILTER_CONFIG_ENCODE_ENABLED, "reading");
}

Status CheckCanRead(const std::vector<Filter>& filters) {
  return CheckCan(filters, H5Z_FILTER_CONFIG_DECODE_ENABLED, "writing");
}

// --- Dataset ---

namespace {

// Opens a group, or creates it and the missing groups above it.
StatusOr<Handle> OpenGroup(const Handle& file, ObjectCache& cache,
                           const std::string& path) {
  bool exists = cache.paths.contains(path);
  if (!exists) {
    const size_t end = path.rfind('/');
    if (end != path.npos && end != 0) {
      BELAY_RETURN_IF_ERROR(
          OpenGroup(file, cache, path.substr(0, end)).status());
    }
    BELAY_ASSIGN_OR_RETURN(
        exists, Number(H5Lexists(file.get(), path.c_str(), H5P_DEFAULT),
                       "look for", path));
    cache.paths.insert(path);
  }
  if (exists) {
    return Own(H5Gopen2(file.get(), path.c_str(), H5P_DEFAULT), "open group",
               path);
  }
  BELAY_ASSIGN_OR_RETURN(const hid_t links, MakeOnce(cache.links, [&] {
                           return LinkProperties(path);
                         }));
  BELAY_ASSIGN_OR_RETURN(const hid_t creation, MakeOnce(cache.groups, [&] {
                           return GroupProperties(H5P_GROUP_CREATE, path);
                         }));
  return Own(H5Gcreate2(file.get(), path.c_str(), links, creation, H5P_DEFAULT),
             "create group", path);
}

// The grid of chunks that covers an array.
struct ChunkGrid {
  Shape counts;
  Shape chunk;
  int64_t chunk_bytes = 0;
};

ChunkGrid MakeGrid(const DatasetSpec& spec) {
  const ElementType type = GetElementType(spec);
  ChunkGrid grid{{}, DatasetAxes(type, spec.chunk), 0};
  for (size_t i = 0; i < grid.chunk.size(); ++i) {
    grid.counts.push_back((spec.shape[i] + spec.chunk[i] - 1) / spec.chunk[i]);
  }
  grid.chunk_bytes = NumElements(grid.chunk) * ElementBytes(type);
  return grid;
}

// Returns the offset of the chunk with this number in row-major order.
StatusOr<int64_t> ChunkOffset(const Handle& dataset, const ChunkGrid& grid,
                              int64_t index) {
  Dims start(grid.counts.size());
  for (size_t axis = start.size(); axis-- > 0;) {
    start[axis] = index % grid.counts[axis] * grid.chunk[axis];
    index /= grid.counts[axis];
  }
  unsigned filters = 0;
  haddr_t address = HADDR_UNDEF;
  hsize_t bytes = 0;
  BELAY_RETURN_IF_ERROR(
      Check(H5Dget_chunk_info_by_coord(dataset.get(), start.data(), &filters,
                                       &address, &bytes),
            "find chunk of", dataset.name()));
  const bool placed = address != HADDR_UNDEF && filters == 0 &&
                      bytes == static_cast<hsize_t>(grid.chunk_bytes);
  if (placed) return static_cast<int64_t>(address);
  return absl::InternalError(
      Cat("find chunk of \"", dataset.name(), "\": not allocated in full"));
}

// HDF5 does not guarantee that chunks are contiguous, so this checks the first
// two and the last chunk.
StatusOr<int64_t> ChunksOffset(const Handle& dataset, const DatasetSpec& spec) {
  const ChunkGrid grid = MakeGrid(spec);
  const int64_t last = NumElements(grid.counts) - 1;
  BELAY_ASSIGN_OR_RETURN(const int64_t base, ChunkOffset(dataset, grid, 0));
  // A single chunk needs no second check, and two chunks need no third one.
  std::vector<int64_t> others;
  if (last >= 1) others.push_back(last);
  if (last >= 2) others.push_back(1);
  for (const int64_t index : others) {
    BELAY_ASSIGN_OR_RETURN(const int64_t found,
                           ChunkOffset(dataset, grid, index));
    const int64_t need = base + index * grid.chunk_bytes;
    if (found != need) {
      return absl::InternalError(Cat(
          "find chunk of \"", dataset.name(), "\": chunk ", index,
          " is not in its place (need offset ", need, ", found ", found, ")"));
    }
  }
  return base;
}

StatusOr<int64_t> DataOffset(const Handle& dataset, const DatasetSpec& spec) {
  if (!spec.chunk.empty()) return ChunksOffset(dataset, spec);
  const haddr_t address = H5Dget_offset(dataset.get());
  BELAY_RETURN_IF_ERROR(
      Judge(address != HADDR_UNDEF, "get offset of", dataset.name()));
  return static_cast<int64_t>(address);
}

}  // namespace

StatusOr<Location> FindLocation(const Handle& file, ObjectCache& cache,
                                const std::string& path) {
  const size_t end = path.rfind('/');
  if (end == path.npos || end == 0) return Location{file.get(), path.c_str()};
  const std::string parent = path.substr(0, end);
  if (!cache.parent.is_open() || cache.parent.name() != parent) {
    BELAY_ASSIGN_OR_RETURN(cache.parent, OpenGroup(file, cache, parent));
  }
  return Location{cache.parent.get(), path.c_str() + end + 1};
}

StatusOr<int64_t> CreateDataset(const Handle& file, ObjectCache& cache,
                                const DatasetSpec& spec) {
  const std::string& path = spec.path;
  const bool has_bytes = HasBytes(spec);
  BELAY_ASSIGN_OR_RETURN(const Location location,
                         FindLocation(file, cache, path));
  const ElementType element = GetElementType(spec);
  const bool is_number = spec.dtype != DType::kString && spec.fields.empty();
  Handle own_type;
  Handle& type_slot = is_number ? cache.types[spec.dtype] : own_type;
  BELAY_ASSIGN_OR_RETURN(
      const hid_t type, MakeOnce(type_slot, [&] { return FileType(element); }));
  BELAY_ASSIGN_OR_RETURN(const Handle space,
                         ArraySpace(spec.shape, element, path));
  BELAY_ASSIGN_OR_RETURN(const hid_t links, MakeOnce(cache.links, [&] {
                           return LinkProperties(path);
                         }));
  const Shape chunk = has_bytes ? DatasetAxes(element, spec.chunk) : Shape{};
  Handle own_creation;
  Handle& creation_slot =
      spec.filters.empty() ? cache.creation[chunk] : own_creation;
  BELAY_ASSIGN_OR_RETURN(const hid_t creation, MakeOnce(creation_slot, [&] {
                           return DatasetProperties(chunk, spec.filters, path);
                         }));
  BELAY_ASSIGN_OR_RETURN(
      Handle dataset, Own(H5Dcreate2(location.group, location.name, type,
                                     space.get(), links, creation, H5P_DEFAULT),
                          "create dataset", path));
  BELAY_RETURN_IF_ERROR(NameDType(dataset, spec.dtype));
  int64_t offset = -1;
  if (has_bytes && spec.filters.empty()) {
    BELAY_ASSIGN_OR_RETURN(offset, DataOffset(dataset, spec));
  }
  BELAY_RETURN_IF_ERROR(dataset.Close());
  return offset;
}

namespace {

// HDF5 would open external raw files when it reads values, even if they are not
// regular files. So they are always refused.
Status CheckHasOwnValues(const Handle& dataset, OtherFiles others) {
  BELAY_ASSIGN_OR_RETURN(const Handle creation, GetCreationProperties(dataset));
  const bool is_virtual = H5Pget_layout(creation.get()) == H5D_VIRTUAL;
  const bool is_elsewhere = H5Pget_external_count(creation.get()) > 0;
  if (!is_elsewhere && !(is_virtual && others == OtherFiles::kRefused)) {
    return absl::OkStatus();
  }
  return absl::DataLossError(
      Cat("open dataset \"", dataset.name(),
          "\": its values lie in other files, which belay does not read"));
}

}  // namespace

StatusOr<int64_t> FindDataset(const Handle& file, const DatasetSpec& spec) {
  BELAY_ASSIGN_OR_RETURN(const Handle dataset, OpenToRead(file, spec.path));
  BELAY_RETURN_IF_ERROR(CheckDataset(dataset, spec));
  if (!HasBytes(spec) || !spec.filters.empty()) return -1;
  return DataOffset(dataset, spec);
}

Status CheckDataset(const Handle& dataset, const DatasetSpec& spec) {
  const ElementType type = GetElementType(spec);
  BELAY_RETURN_IF_ERROR(CheckStoredType(dataset, type));
  BELAY_ASSIGN_OR_RETURN(const Shape shape, DatasetShape(dataset));
  const Shape need = DatasetAxes(type, spec.shape);
  if (shape == need) return absl::OkStatus();
  return absl::DataLossError(Cat("find \"", spec.path,
                                 "\": another shape (need ", ShapeText(need),
                                 ", found ", ShapeText(shape), ")"));
}

StatusOr<Handle> OpenDataset(const Handle& file, std::string_view path) {
  const std::string name(path);
  return Own(H5Dopen2(file.get(), name.c_str(), H5P_DEFAULT), "open dataset",
             name);
}

StatusOr<Handle> OpenToRead(const Handle& file, std::string_view path,
                            OtherFiles others) {
  const std::string name(path);
  BELAY_ASSIGN_OR_RETURN(const Handle access,
                         LinkAccess(H5P_DATASET_ACCESS, others, name));
  BELAY_ASSIGN_OR_RETURN(Handle dataset,
                         Own(H5Dopen2(file.get(), name.c_str(), access.get()),
                             "open dataset", name));
  BELAY_RETURN_IF_ERROR(CheckHasOwnValues(dataset, others));
  return dataset;
}

StatusOr<Shape> DatasetShape(const Handle& dataset) {
  BELAY_ASSIGN_OR_RETURN(const Handle space, GetSpace(dataset));
  BELAY_ASSIGN_OR_RETURN(const int64_t ndim,
                         Number(H5Sget_simple_extent_ndims(space.get()),
                                "get number of axes of", dataset.name()));
  Dims dims(static_cast<size_t>(ndim));
  BELAY_RETURN_IF_ERROR(
      Check(H5Sget_simple_extent_dims(space.get(), dims.data(), nullptr),
            "get shape of", dataset.name()));
  return Shape(dims.begin(), dims.end());
}

// --- Bytes ---

namespace {

// All arguments of an H5Dwrite or H5Dread except the data.
struct Transfer {
  Handle type;
  Handle memory;
  Handle selection;
  Handle properties;
};

// `type` must also be the stored type: with any other memory type, HDF5
// converts, and silently turns a collective write into an independent one.
StatusOr<Transfer> Prepare(const Handle& dataset, const Box& array_box,
                           const ElementType& type, bool is_collective) {
  const std::string& name = dataset.name();
  Transfer transfer;
  BELAY_ASSIGN_OR_RETURN(const Box box, DatasetBox(type, array_box));
  BELAY_ASSIGN_OR_RETURN(transfer.type, FileType(type));
  BELAY_ASSIGN_OR_RETURN(transfer.memory, NewSpace(box.shape, name));
  if (IsEmpty(box)) BELAY_RETURN_IF_ERROR(SelectBox(transfer.memory, box));
  BELAY_ASSIGN_OR_RETURN(transfer.selection, GetSpace(dataset));
  BELAY_RETURN_IF_ERROR(SelectBox(transfer.selection, box));
  BELAY_ASSIGN_OR_RETURN(transfer.properties,
                         NewProperties(H5P_DATASET_XFER, name));
  if (!is_collective) return transfer;
  BELAY_RETURN_IF_ERROR(
      Check(H5Pset_dxpl_mpio(transfer.properties.get(), H5FD_MPIO_COLLECTIVE),
            "set collective transfer", name));
  return transfer;
}

bool IsEmptyText(const ElementType& type) {
  return type.dtype == DType::kString && type.string_bytes == 0;
}

Status CheckStoredBox(const Handle& dataset, const Box& box) {
  BELAY_ASSIGN_OR_RETURN(const Shape shape, DatasetShape(dataset));
  if (shape.size() != box.shape.size()) {
    return absl::DataLossError(
        Cat("read \"", dataset.name(), "\": another number of axes (need ",
            box.shape.size(), ", found ", shape.size(), ")"));
  }
  return CheckBox(box, shape);
}

}  // namespace

Status WriteHyperslabTogether(const Handle& dataset, const Box& box,
                              const ElementType& type, const void* data) {
  if (IsEmptyText(type)) return absl::OkStatus();
  StatusOr<Transfer> transfer = Prepare(dataset, box, type, true);
  Status first = transfer.status();
  if (!transfer.ok()) {
    const Shape none(type.fields.empty() ? 1 : 2);
    transfer = Prepare(dataset, {none, none}, type, true);
  }
  if (!transfer.ok()) return first;
  first.Update(Check(
      H5Dwrite(dataset.get(), transfer->type.get(), transfer->memory.get(),
               transfer->selection.get(), transfer->properties.get(), data),
      "write dataset", dataset.name()));
  return first;
}

Status ReadHyperslab(const Handle& file, std::string_view path,
                     const ElementType& type, const Box& box, void* data,
                     OtherFiles others) {
  BELAY_ASSIGN_OR_RETURN(const Handle dataset, OpenToRead(file, path, others));
  BELAY_RETURN_IF_ERROR(CheckStoredType(dataset, type));
  BELAY_ASSIGN_OR_RETURN(const Box stored, DatasetBox(type, box));
  BELAY_RETURN_IF_ERROR(CheckStoredBox(dataset, stored));
  if (IsEmpty(box) || IsEmptyText(type)) return absl::OkStatus();
  BELAY_ASSIGN_OR_RETURN(const Transfer transfer,
                         Prepare(dataset, box, type, false));
  return Check(
      H5Dread(dataset.get(), transfer.type.get(), transfer.memory.get(),
              transfer.selection.get(), transfer.properties.get(), data),
      "read dataset", dataset.name());
}

}  // namespace belay::h5
