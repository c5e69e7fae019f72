// The plan of an export: its files, and the shares of the ranks.

#ifndef BELAY_SAFETENSORS_EXPORT_PLAN_H_
#define BELAY_SAFETENSORS_EXPORT_PLAN_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "belay/arrays/box.h"
#include "belay/status.h"
#include "core/wire.h"
#include "plan/plan.h"
#include "safetensors/header.h"

namespace belay::safetensors {

// Shards without bytes as messages: what a rank is to carry.

// Appends shards. They are replica 0, have no layout, and are no texts.
void PutShards(WireWriter& out, const std::vector<ShardInfo>& shards);
std::vector<ShardInfo> GetShards(WireReader& in);

// Who carries which part of the tensors, so that all ranks carry about the same
// number of bytes.
//
// In:  the tensors as they lie end to end, and a number of ranks.
// Out: for each rank ranges of elements, which go on where those of the rank
//      before end; ranges as boxes.

// The elements [begin, end) of a tensor, counted row-major.
struct TensorRange {
  int64_t tensor = 0;
  int64_t begin = 0;
  int64_t end = 0;

  friend bool operator==(const TensorRange&, const TensorRange&) = default;
};

// A tensor is cut only between blocks of so many elements: the largest number
// of whole rows along its outermost axes that is no more than 1 MiB; one
// element, if a row of the last axis is more.
int64_t UnitElements(const FileTensor& tensor);

// Cuts the tensors into `num_ranks` shares, which differ by the size of one
// unit. A tensor without elements is in the first share.
std::vector<std::vector<TensorRange>> EvenShares(
    const std::vector<FileTensor>& tensors, int num_ranks);

// Calls `visit` for boxes that make up the elements [begin, end) of an array
// of that shape, in row-major order; each is contiguous in the array. At most
// 2 * ndim - 1 of them. An empty range gives nothing.
void ForEachBoxOfRange(const Shape& shape, int64_t begin, int64_t end,
                       absl::FunctionRef<void(const Box&)> visit);

// Which tensors go into which safetensors file, and where in it.
//
// In:  names, dtypes and shapes of tensors, and the most bytes of a file.
// Out: files with their headers; with several also the index of Hugging Face,
//      which says which tensor is in which file.

// What the names of files end with.
inline constexpr std::string_view kFileEnd = ".safetensors";
inline constexpr std::string_view kIndexEnd = ".safetensors.index.json";

struct PlannedFile {
  std::string name;
  std::string head;                 // its length and its header
  std::vector<FileTensor> tensors;  // in the order of the file
  int64_t bytes = 0;                // of the whole file
};

struct FilePlan {
  std::vector<PlannedFile> files;
  // Of an export into several files; both are empty if there is one.
  std::string index_name;
  std::string index_text;
};

// Plans the files of an export called `stem`. Tensors are dealt out in
// the order of their names; a file is full when another one would make it
// longer than `max_file_bytes`, so that one tensor that is longer than that has
// a file to itself. 0: all in one file. Offsets of `tensors` are not looked at.
// Errors: those of HeaderText; InvalidArgument - max_file_bytes has no room for
//   the header of a file with one tensor.
StatusOr<FilePlan> PlanFiles(std::vector<FileTensor> tensors,
                             const Metadata& metadata, std::string_view stem,
                             int64_t max_file_bytes);

// Returns whether `name` is one that an export called `stem` can have given to
// a file: "STEM.safetensors", "STEM-00001-of-00003.safetensors" or
// "STEM.safetensors.index.json".
bool IsNameOfExport(std::string_view name, std::string_view stem);

// A name of the form "STEM-00001-of-00003.safetensors".
struct NumberedName {
  std::string stem;
  int64_t number = 0;
  int64_t count = 0;
};

// Returns the parts of such a name, or nothing for any other name.
std::optional<NumberedName> ParseNumberedName(std::string_view name);

// The file of each tensor, as an index says it.
using FileOfTensor = std::map<std::string, std::string>;

// Reads an index. Every file is a name in the directory of the index.
// Errors: DataLoss - not JSON of that form, nested more than 64 levels deep, or
//   a name appears twice;
//   InvalidArgument - the name of a file leads elsewhere.
StatusOr<FileOfTensor> ParseIndex(std::string_view text);

// Who writes what of an export, and through how much memory.
//
// In:  the planned files, a number of ranks, and a limit.
// Out: for each rank windows, in the order of the files; a window is read from
//      the checkpoint box by box, and written in one go.

// A range of bytes of one file.
struct Window {
  int32_t file = 0;
  int64_t offset = 0;  // in the file
  int64_t bytes = 0;
  // The shards that it consists of, end to end: [begin, end).
  int32_t begin_shard = 0;
  int32_t end_shard = 0;

  friend bool operator==(const Window&, const Window&) = default;
};

struct RankExport {
  std::vector<Window> windows;
  std::vector<ShardInfo> shards;
};

// The most windows of all ranks together, which rank 0 has in its memory: more
// than an export of 64 TiB has through windows of 16 MiB.
inline constexpr int64_t kMostWindows = int64_t{1} << 22;

// Plans windows of at most `max_bytes`, which has to hold one element at least.
// Errors: InvalidArgument - `max_bytes` makes more than kMostWindows.
StatusOr<std::vector<RankExport>> PlanExport(const FilePlan& files,
                                             int num_ranks, int64_t max_bytes);

// For messages between ranks.
void PutRankExport(WireWriter& out, const RankExport& part);
RankExport GetRankExport(WireReader& in);

}  // namespace belay::safetensors

#endif  // BELAY_SAFETENSORS_EXPORT_PLAN_H_
