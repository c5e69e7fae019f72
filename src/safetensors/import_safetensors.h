// Opens safetensors files for an import, and divides their tensors among the
// ranks.

#ifndef BELAY_SAFETENSORS_IMPORT_SAFETENSORS_H_
#define BELAY_SAFETENSORS_IMPORT_SAFETENSORS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "belay/status.h"
#include "plan/plan.h"
#include "safetensors/export_plan.h"
#include "safetensors/header.h"

namespace belay::safetensors {

// The tensors that are imported from one file.
struct SourceTensors {
  int64_t data_offset = 0;
  std::vector<FileTensor> tensors;
};

// The position of a shard's elements.
struct FilePlace {
  int32_t file = 0;
  int64_t offset = 0;  // in the file

  friend bool operator==(const FilePlace&, const FilePlace&) = default;
};
template <typename Archive>
void Fields(Archive& archive, FilePlace& place) {
  archive(place.file, place.offset);
}

struct RankImport {
  std::vector<ShardInfo> shards;
  std::vector<FilePlace> places;  // per shard
};
template <typename Archive>
void Fields(Archive& archive, RankImport& part) {
  archive(part.shards, part.places);
}

// Divides the tensors so that every rank gets about the same number of bytes.
std::vector<RankImport> PlanImport(std::vector<SourceTensors> files,
                                   int num_ranks);

}  // namespace belay::safetensors

namespace belay {

struct SafetensorsFile {
  std::string path;
  int64_t bytes = 0;
  int64_t modified_ns = 0;
  int64_t data_offset = 0;  // of the first byte after the header
  safetensors::FileHeader header;
};

// Reads the headers of all files at these paths, which may be files, indexes or
// directories, as described at ImportSafetensors. Only the paths themselves may
// be symbolic links. Rank 0 only.
// Errors: those of ParseHeader, ParseIndex and PosixFile, with the path;
//   NotFound - a directory has no safetensors file; InvalidArgument - a
//   directory has several indexes, or a tensor is in two files; DataLoss - a
//   file of a numbered series is missing, an index and the headers do not
//   agree, or all headers together exceed kMaxHeaderBytesOfAll.
StatusOr<std::vector<SafetensorsFile>> OpenSafetensors(
    const std::vector<std::string>& paths);

}  // namespace belay

#endif  // BELAY_SAFETENSORS_IMPORT_SAFETENSORS_H_
