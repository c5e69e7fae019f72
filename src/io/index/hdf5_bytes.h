// The bytes of an HDF5 file of a step, to be read without libhdf5.

#ifndef BELAY_IO_INDEX_HDF5_BYTES_H_
#define BELAY_IO_INDEX_HDF5_BYTES_H_

#include <memory>
#include <string>

#include "belay/status.h"
#include "hdf5_format/read/bounded_file.h"
#include "io/files/posix_file.h"

namespace belay {

// How long an open file would be without its holes; more, if the file system
// may have compressed it. Local.
int64_t BytesWithoutHoles(const PosixFile& file, const FileStat& stat);

// An open file, and its bytes with a budget for memory that follows from the
// space it takes. For one thread at a time.
class Hdf5Bytes {
 public:
  // Local.
  // Errors: those of PosixFile.
  static StatusOr<std::unique_ptr<Hdf5Bytes>> Open(const std::string& path);

  h5::BoundedFile& bytes() { return bytes_; }

  // Closes the file. Local.
  Status Close() { return file_.Close(); }

 private:
  Hdf5Bytes(PosixFile file, const FileStat& stat);

  PosixFile file_;
  h5::BoundedFile bytes_;
};

}  // namespace belay

#endif  // BELAY_IO_INDEX_HDF5_BYTES_H_
