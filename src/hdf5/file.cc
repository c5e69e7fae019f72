#include "hdf5/file.h"

#include <sys/stat.h>

#include "base/status_macros.h"
#include "base/text.h"
#include "hdf5/error.h"
#include "hdf5/property.h"
#include "hdf5/writer_driver.h"

namespace belay::h5 {
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

Status FlushFile(const Handle& file) {
  return Check(H5Fflush(file.get(), H5F_SCOPE_LOCAL), "flush file",
               file.name());
}

}  // namespace belay::h5
