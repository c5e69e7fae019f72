// The plan of an export: its files, and each rank's share.

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

// Fields of messages between ranks. The shards of an export or import have
// replica number 0 and no layout, and are not strings.
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

// Divides contiguous tensors among the ranks, so that all ranks transfer about
// the same number of bytes. Each rank's ranges of elements begin where those of
// the previous rank end.

// The elements [begin, end) of a tensor, in row-major order.
struct TensorRange {
  int64_t tensor = 0;
  int64_t begin = 0;
  int64_t end = 0;

  friend bool operator==(const TensorRange&, const TensorRange&) = default;
};

// Tensors are cut only between units of this many elements. A unit is the
// largest subarray that fits in 1 MiB and consists of all elements with the
// same indices along the first axes.
int64_t UnitElements(const FileTensor& tensor);

// Cuts the tensors into `num_ranks` shares, whose sizes differ by at most one
// unit. Tensors without elements are in the first share.
std::vector<std::vector<TensorRange>> EvenShares(
    const std::vector<FileTensor>& tensors, int num_ranks);

// Endings of file names.
inline constexpr std::string_view kFileEnd = ".safetensors";
inline constexpr std::string_view kIndexEnd = ".safetensors.index.json";

struct PlannedFile {
  std::string name;
  std::string head;                 // the header, preceded by its length
  std::vector<FileTensor> tensors;  // in the order of the file
  int64_t bytes = 0;                // of the whole file
};

struct FilePlan {
  std::vector<PlannedFile> files;
  // The Hugging Face index, which names the file of each tensor. Empty if there
  // is only one file.
  std::string index_name;
  std::string index_text;
};

// Plans the files of an export named `stem`. Distributes the tensors in the
// order of their names. Starts a new file if another tensor would make a file
// longer than `max_file_bytes` (0: one file for all). A tensor that is larger
// than that has a file to itself. Of the offsets of `tensors`, only the
// differences matter.
// Errors: those of HeaderText; InvalidArgument - max_file_bytes has no room for
//   the header of a file with one tensor.
StatusOr<FilePlan> PlanFiles(std::vector<FileTensor> tensors,
                             const Metadata& metadata, std::string_view stem,
                             int64_t max_file_bytes);

// Returns true for the file names of an export named `stem`:
// "STEM.safetensors", "STEM-00001-of-00003.safetensors" and
// "STEM.safetensors.index.json".
bool IsNameOfExport(std::string_view name, std::string_view stem);

// A name of the form "STEM-00001-of-00003.safetensors".
struct NumberedName {
  std::string stem;
  int64_t number = 0;
  int64_t count = 0;
};

// Returns the parts of such a name, or nullopt for any other name.
std::optional<NumberedName> ParseNumberedName(std::string_view name);

// The file of each tensor.
using FileOfTensor = std::map<std::string, std::string>;

// Parses an index. Its files must be in the directory of the index.
// Errors: DataLoss - not an index in JSON, nested more than 64 levels deep, or
//   a name appears twice; InvalidArgument - a file is in another directory.
StatusOr<FileOfTensor> ParseIndex(std::string_view text);

// A range of bytes of one file. A rank reads them from the checkpoint box by
// box, and writes them with one call.
struct Window {
  int32_t file = 0;
  int64_t offset = 0;  // in the file
  int64_t bytes = 0;
  // The window consists of these shards of the rank, [begin, end).
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

// Limit on the number of windows of all ranks, which rank 0 holds in memory.
// Enough to export 64 TiB in windows of 16 MiB.
inline constexpr int64_t kMaxWindows = int64_t{1} << 22;

// Plans windows of at most `max_bytes`, which must be enough for one element.
// Errors: InvalidArgument - `max_bytes` needs more than kMaxWindows windows.
StatusOr<std::vector<RankExport>> PlanExport(const FilePlan& files,
                                             int num_ranks, int64_t max_bytes);

}  // namespace belay::safetensors

#endif  // BELAY_SAFETENSORS_EXPORT_PLAN_H_
