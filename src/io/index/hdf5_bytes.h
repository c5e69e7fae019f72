// The bytes of an HDF5 file of a step, to be read without libhdf5.

#ifndef BELAY_IO_INDEX_HDF5_BYTES_H_
#define BELAY_IO_INDEX_HDF5_BYTES_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "belay/status.h"
#include "hdf5_format/read/bounded_file.h"
#include "io/files/posix_file.h"

namespace belay {

// How long an open file would be without its holes; more, if the file system
// may have compressed it. Local.
int64_t BytesWithoutHoles(const PosixFile& file, const FileStat& stat);

// The variable of the environment that says how many bytes of memory the
// metadata of one file may take.
inline constexpr char kMaxMetadataBytes[] = "BELAY_MAX_METADATA_BYTES";

// What the metadata of a file may take if it is not set: 40 times its stored
// bytes, and 16 MiB. Local.
int64_t MetadataBudget(int64_t stored_bytes);

// What it says; nothing if it is not set. Local.
// Errors: InvalidArgument - that is no number of bytes.
StatusOr<std::optional<int64_t>> MaxMetadataBytes();

// An open file, and its bytes with a budget for memory, which follows from the
// space it takes unless the environment says it. For one thread at a time.
class Hdf5Bytes {
 public:
  // Local.
  // Errors: those of PosixFile and of MaxMetadataBytes.
  static StatusOr<std::unique_ptr<Hdf5Bytes>> Open(const std::string& path);

  h5::BoundedFile& bytes() { return bytes_; }

  // Closes the file. Local.
  Status Close() { return file_.Close(); }

 private:
  Hdf5Bytes(PosixFile file, const FileStat& stat, int64_t budget);

  PosixFile file_;
  h5::BoundedFile bytes_;
};

}  // namespace belay

#endif  // BELAY_IO_INDEX_HDF5_BYTES_H_
