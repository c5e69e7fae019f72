// Opening and creating HDF5 files.
//
// Files are made by one process with the serial driver; the parallel driver
// only ever opens a file that exists. Nothing in a file depends on the time,
// so the same calls make the same bytes.

#ifndef BELAY_HDF5_FILE_H_
#define BELAY_HDF5_FILE_H_

#include <hdf5.h>
#include <mpi.h>

#include <cstdint>
#include <string>

#include "base/symbolic_links.h"
#include "belay/status.h"
#include "hdf5/handle.h"

namespace belay::h5 {

// How a new file reserves space, in bytes; 0 leaves HDF5's default. About the
// metadata of all objects (400 bytes a dataset) keeps object headers together,
// so that they are read and copied in one piece.
struct FileLayoutHint {
  int64_t metadata_bytes = 0;
  int64_t small_data_bytes = 0;  // arrays below this share blocks of this size
};

// What there may be before a file is created.
enum class Before : uint8_t {
  kNothing,
  kEmptyFile,  // it is kept, with what the file system knows of it
};

// Creates a file. Local.
// Errors: AlreadyExists - it was to be new; NotFound - no such directory;
//   PermissionDenied; ResourceExhausted; Internal.
StatusOr<Handle> CreateFile(const std::string& path,
                            const FileLayoutHint& hint = {},
                            Before before = Before::kNothing);

// Opens a file for reading. Local.
// Errors: NotFound; PermissionDenied; DataLoss - truncated, damaged, or no HDF5
//   file at all; InvalidArgument - not a regular file, or a symbolic link;
//   Internal.
StatusOr<Handle> OpenFileReadOnly(const std::string& path,
                                  Links links = Links::kRefused);

// The same of a file that may be missing: the handle is not open then. Passes
// no fault point. Local.
Handle OpenIfThere(const std::string& path);

// Opens an existing file for reading and writing on all ranks of `comm`.
// Collective. Same on all ranks: path, hints. The Status is not agreed. `file`
// may be open although this rank failed: agree on file.is_open(). If all ranks
// have it, all Close() it; if not, all let go of it, for closing communicates.
// Errors: as OpenFileReadOnly, of this rank.
Status OpenFileParallel(const std::string& path, MPI_Comm comm, MPI_Info hints,
                        Handle& file);

// Hands what HDF5 keeps in memory to the system; no fsync with the serial
// driver. Local. All ranks together on a file that all have open; the Status is
// not agreed.
// Errors: ResourceExhausted; Internal.
Status FlushFile(const Handle& file);

}  // namespace belay::h5

#endif  // BELAY_HDF5_FILE_H_
