// Reads the file of a GuardedFile, in the process that runs for it.

#ifndef BELAY_HDF5_FILE_SERVER_H_
#define BELAY_HDF5_FILE_SERVER_H_

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "belay/status.h"
#include "core/wire.h"
#include "hdf5/guarded_file.h"
#include "hdf5/handle.h"

namespace belay::h5 {

class FileServer {
 public:
  // Answers a FileRequest, the first of which mostly opens a file. Large values
  // go to `shared`. Errors: those of the function of GuardedFile.
  StatusOr<std::string> Answer(std::string_view request,
                               std::span<std::byte> shared);

 private:
  StatusOr<std::string> Find(WireReader in, std::span<std::byte> shared);
  StatusOr<std::string> Open(WireReader& in);
  StatusOr<std::string> List() const;
  StatusOr<std::string> Describe(const Handle& dataset,
                                 bool checks_sources) const;
  StatusOr<std::string> ReadStored(const std::string& path, WireReader& in,
                                   std::span<std::byte> shared) const;

  bool is_ours_ = false;
  Handle file_;
};

}  // namespace belay::h5

#endif  // BELAY_HDF5_FILE_SERVER_H_
