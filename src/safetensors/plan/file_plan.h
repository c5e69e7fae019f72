// Which tensors go into which safetensors file, and where in it.
//
// In:  names, dtypes and shapes of tensors, and the most bytes of a file.
// Out: files with their headers; with several also the index of Hugging Face,
//      which says which tensor is in which file.
// Pure.

#ifndef BELAY_SAFETENSORS_PLAN_FILE_PLAN_H_
#define BELAY_SAFETENSORS_PLAN_FILE_PLAN_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "belay/status.h"
#include "safetensors/plan/header.h"

namespace belay::safetensors {

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

}  // namespace belay::safetensors

#endif  // BELAY_SAFETENSORS_PLAN_FILE_PLAN_H_
