// Which rank takes what of the tensors of files.
//
// In:  the headers of files. Out: for each rank boxes, and where in which file
//      their elements lie, end to end.

#ifndef BELAY_SAFETENSORS_IMPORT_SAFETENSORS_H_
#define BELAY_SAFETENSORS_IMPORT_SAFETENSORS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plan/plan.h"
#include "safetensors/header.h"

namespace belay::safetensors {

// The tensors of one file that are wanted, and where its data begins.
struct SourceTensors {
  int64_t data_offset = 0;
  std::vector<FileTensor> tensors;
};

// Where the elements of a shard lie.
struct FilePlace {
  int32_t file = 0;
  int64_t offset = 0;  // in the file

  friend bool operator==(const FilePlace&, const FilePlace&) = default;
};

struct RankImport {
  std::vector<ShardInfo> shards;
  std::vector<FilePlace> places;  // of the shards
};

// Gives every rank about the same number of bytes.
std::vector<RankImport> PlanImport(std::vector<SourceTensors> files,
                                   int num_ranks);

// For messages between ranks.
std::string EncodeRankImport(const RankImport& part);
RankImport DecodeRankImport(std::string_view bytes);

}  // namespace belay::safetensors

#endif  // BELAY_SAFETENSORS_IMPORT_SAFETENSORS_H_
