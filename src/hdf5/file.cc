#include "hdf5/file.h"

#include <sys/stat.h>

#include "core/status_macros.h"
#include "core/text.h"
#include "format/write_links.h"
#include "hdf5/writer_driver.h"

namespace belay::h5 {
namespace {

constexpr unsigned kMinIndexedLinks = 6;

Status NoTimes(const Handle& properties) {
  return Check(H5Pset_obj_track_times(properties.get(), false),
               "set time tracking", properties.name());
}

// Returning less than 0 refuses a link into another file.
herr_t RefuseLink(const char*, const char*, const char*, const char*, unsigned*,
                  hid_t, void*) {
  return -1;
}

// HDF5 looks for the file of a link beside the one that has it, too.
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
    // A chunk that would grow is stored without it.
    BELAY_RETURN_IF_ERROR(
        Check(H5Pset_filter(id, filter.id, H5Z_FLAG_OPTIONAL,
                            filter.parameters.size(), filter.parameters.data()),
              "set filter", object));
  }
  // The size of a filtered chunk is known when it is written. A fill value
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

// A file that cannot be closed because something in it is open is an error.
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

// HDF5 waits for the other end of a pipe, and with it all ranks.
Status CheckRegular(const std::string& path, Links links) {
  struct stat stat;
  if (!AreFollowed(links) && ::lstat(path.c_str(), &stat) == 0 &&
      S_ISLNK(stat.st_mode)) {
    return IsSymbolicLink("open file", path);
  }
  if (::stat(path.c_str(), &stat) != 0 || S_ISREG(stat.st_mode) ||
      S_ISDIR(stat.st_mode)) {
    return absl::OkStatus();  // HDF5 says what else is wrong
  }
  return absl::InvalidArgumentError(
      Cat("open file \"", path, "\": not a regular file"));
}

StatusOr<Handle> ReaderAccess(const std::string& path) {
  // Files that links lead to stay open with the one that has the links.
  constexpr unsigned kLinkedFiles = 16;
  BELAY_ASSIGN_OR_RETURN(Handle access, NewProperties(H5P_FILE_ACCESS, path));
  BELAY_RETURN_IF_ERROR(
      Check(H5Pset_elink_file_cache_size(access.get(), kLinkedFiles),
            "set cache of linked files", path));
  return access;
}

}  // namespace

StatusOr<Handle> CreateFile(const std::string& path, const FileLayoutHint& hint,
                            Before before) {
  InitLibrary();
  BELAY_ASSIGN_OR_RETURN(const Handle access, WriterAccess(hint, path));
  BELAY_ASSIGN_OR_RETURN(const Handle creation,
                         GroupProperties(H5P_FILE_CREATE, path));
  const unsigned flags =
      before == Before::kNothing ? H5F_ACC_EXCL : H5F_ACC_TRUNC;
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
// communicates, and keeps the file for the common close. Collective metadata
// reads stay off: they are broken in HDF5 1.10.5 to 1.10.8.
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

}  // namespace belay::h5
