// Safetensors files that are read: which of them a path means, and what their
// headers say.

#ifndef BELAY_SAFETENSORS_SAFETENSORS_FILES_H_
#define BELAY_SAFETENSORS_SAFETENSORS_FILES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "belay/status.h"
#include "safetensors/header.h"

namespace belay {

struct SafetensorsFile {
  std::string path;
  int64_t bytes = 0;
  int64_t modified_ns = 0;
  int64_t data_offset = 0;  // of the first byte behind the header
  safetensors::FileHeader header;
};

// Reads the headers of all files that these paths mean: files, indexes and
// directories, as ImportSafetensors says. Only these paths may be symbolic
// links. Rank 0 only.
// Errors: those of ParseHeader, ParseIndex and PosixFile, with the path;
//   NotFound - a directory has no safetensors file; InvalidArgument - it has
//   several indexes, or a tensor is in two files; DataLoss - a file of a
//   numbered series is missing, an index and the headers do not agree, or all
//   headers together are above kMaxHeaderBytesOfAll.
StatusOr<std::vector<SafetensorsFile>> OpenSafetensors(
    const std::vector<std::string>& paths);

}  // namespace belay

#endif  // BELAY_SAFETENSORS_SAFETENSORS_FILES_H_
