// The plan of an export: its files, and the shares of the ranks.

#ifndef BELAY_SAFETENSORS_EXPORT_PLAN_H_
#define BELAY_SAFETENSORS_EXPORT_PLAN_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "belay/arrays/box.h"
#include "belay/safetensors.h"
#include "belay/status.h"
#include "core/wire.h"
#include "plan/plan.h"
#include "safetensors/header.h"

namespace belay {

// Messages between ranks. The shards of an export or import are replica 0, have
// no layout, and are not strings.
template <typename Archive>
void Fields(Archive& archive, ShardInfo& shard) {
  archive(shard.key, shard.dtype, shard.global_shape, shard.box);
}
template <typename Archive>
void Fields(Archive& archive, SafetensorsInfo& file) {
  archive(file.path, file.num_tensors, file.bytes);
}
template <typename Archive>
void Fields(Archive& archive, LeftOut& one) {
  archive(one.name, one.reason);
}

}  // namespace belay

namespace belay::safetensors {

// Divides tensors, which lie end to end, among the ranks, so that all ranks
// carry about the same number of bytes. Each rank gets ranges of elements that
// continue those of the rank before.

// The elements [begin, end) of a tensor, counted row-major.
struct TensorRange {
  int64_t tensor = 0;
  int64_t begin = 0;
  int64_t end = 0;

  friend bool operator==(const TensorRange&, const TensorRange&) = default;
};

// Tensors are cut only between units of this many elements: the largest number
// of whole rows along the outermost axes that fits in 1 MiB, or one element if
// a row of the last axis does not fit.
int64_t UnitElements(const FileTensor& tensor);

// Cuts the tensors into `num_ranks` shares, whose sizes differ by at most one
// unit. A tensor without elements is in the first share.
std::vector<std::vector<TensorRange>> EvenShares(
    const std::vector<FileTensor>& tensors, int num_ranks);

// Names of files.
inline constexpr std::string_view kFileEnd = ".safetensors";
inline constexpr std::string_view kIndexEnd = ".safetensors.index.json";

struct PlannedFile {
  std::string name;
  std::string head;                 // the length of the header, and the header
  std::vector<FileTensor> tensors;  // in the order of the file
  int64_t bytes = 0;                // of the whole file
};

struct FilePlan {
  std::vector<PlannedFile> files;
  // The index of Hugging Face, which names the file of each tensor. Empty if
  // there is one file.
  std::string index_name;
  std::string index_text;
};

// Plans the files of an export called `stem`. Distributes the tensors in the
// order of their names. A file is full if another tensor would make it longer
// than `max_file_bytes` (0: one file for all), so that a longer tensor has a
// file to itself. Ignores the offsets of `tensors`.
// Errors: those of HeaderText; InvalidArgument - max_file_bytes has no room for
//   the header of a file with one tensor.
StatusOr<FilePlan> PlanFiles(std::vector<FileTensor> tensors,
                             const Metadata& metadata, std::string_view stem,
                             int64_t max_file_bytes);

// True for the names of files of an export called `stem`: "STEM.safetensors",
// "STEM-00001-of-00003.safetensors" and "STEM.safetensors.index.json".
bool IsNameOfExport(std::string_view name, std::string_view stem);

// A name of the form "STEM-00001-of-00003.safetensors".
struct NumberedName {
  std::string stem;
  int64_t number = 0;
  int64_t count = 0;
};

// Returns the parts of such a name, or nothing for any other name.
std::optional<NumberedName> ParseNumberedName(std::string_view name);

// The file of each tensor.
using FileOfTensor = std::map<std::string, std::string>;

// Parses an index, whose files are names in the directory of the index.
// Errors: DataLoss - not JSON of that form, nested more than 64 levels deep, or
//   a name appears twice; InvalidArgument - a file in another directory.
StatusOr<FileOfTensor> ParseIndex(std::string_view text);

// A range of bytes of one file, which a rank reads from the checkpoint box by
// box, and writes in one go.
struct Window {
  int32_t file = 0;
  int64_t offset = 0;  // in the file
  int64_t bytes = 0;
  // The range of the rank's shards that it consists of, end to end.
  int32_t begin_shard = 0;
  int32_t end_shard = 0;

  friend bool operator==(const Window&, const Window&) = default;
};
template <typename Archive>
void Fields(Archive& archive, Window& window) {
  archive(window.file, window.offset, window.bytes, window.begin_shard,
          window.end_shard);
}

struct RankExport {
  std::vector<Window> windows;  // in the order of the files
  std::vector<ShardInfo> shards;
};
template <typename Archive>
void Fields(Archive& archive, RankExport& part) {
  archive(part.windows, part.shards);
}

// The most windows of all ranks together, which rank 0 holds in memory: enough
// to export 64 TiB in windows of 16 MiB.
inline constexpr int64_t kMaxWindows = int64_t{1} << 22;

// Plans windows of at most `max_bytes`, which must hold at least one element.
// Errors: InvalidArgument - `max_bytes` makes more than kMaxWindows.
StatusOr<std::vector<RankExport>> PlanExport(const FilePlan& files,
                                             int num_ranks, int64_t max_bytes);

}  // namespace belay::safetensors

#endif  // BELAY_SAFETENSORS_EXPORT_PLAN_H_
