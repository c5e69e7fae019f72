#include "safetensors/plan/file_plan.h"

#include <algorithm>
#include <tuple>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "base/text.h"

namespace belay::safetensors {
namespace {

// What a header may take beside its tensors: its length, braces, and spaces.
constexpr int64_t kFrameBytes = 24;

std::string NumberedNameOf(std::string_view stem, size_t number, size_t count) {
  return absl::StrFormat("%s-%05d-of-%05d%s", AbslView(stem), number, count,
                         AbslView(kFileEnd));
}

// The most that the header of a file may take for a tensor: its offsets have no
// more digits than the length of the file.
StatusOr<int64_t> MostHeaderBytes(FileTensor tensor, int64_t max_file_bytes) {
  tensor.end = std::max(tensor.end - tensor.begin, max_file_bytes);
  tensor.begin = tensor.end;
  BELAY_ASSIGN_OR_RETURN(const std::string text, TensorText(tensor));
  return std::ssize(text) + 1;  // and a comma
}

Status TooSmall(const std::string& what, int64_t header_bytes,
                int64_t max_file_bytes) {
  return absl::InvalidArgumentError(absl::StrFormat(
      "max_file_bytes is too small for a header with %s (need at least %d, "
      "found %d)",
      what, header_bytes, max_file_bytes));
}

// Checks that a file has room for a header with one tensor.
Status CheckHolds(int64_t frame_bytes, const FileTensor& tensor,
                  int64_t max_file_bytes) {
  BELAY_ASSIGN_OR_RETURN(int64_t more, MostHeaderBytes(tensor, max_file_bytes));
  if (max_file_bytes == 0 || frame_bytes + more <= max_file_bytes) {
    return absl::OkStatus();
  }
  // In a longer file offsets may have more digits.
  BELAY_ASSIGN_OR_RETURN(more, MostHeaderBytes(tensor, frame_bytes + more));
  return TooSmall(Cat("tensor \"", tensor.name, "\""), frame_bytes + more,
                  max_file_bytes);
}

// Deals the tensors out, in order.
StatusOr<std::vector<PlannedFile>> DealOut(std::vector<FileTensor> tensors,
                                           int64_t frame_bytes,
                                           int64_t max_file_bytes) {
  std::vector<PlannedFile> files(1);
  if (max_file_bytes > 0 && frame_bytes > max_file_bytes) {
    return TooSmall("metadata", frame_bytes, max_file_bytes);
  }
  int64_t header_bytes = frame_bytes;
  int64_t data_bytes = 0;
  for (FileTensor& tensor : tensors) {
    BELAY_ASSIGN_OR_RETURN(const int64_t more,
                           MostHeaderBytes(tensor, max_file_bytes));
    BELAY_RETURN_IF_ERROR(CheckHolds(frame_bytes, tensor, max_file_bytes));
    const int64_t bytes = tensor.end - tensor.begin;
    const bool is_full =
        bytes > max_file_bytes - header_bytes - more ||
        data_bytes > max_file_bytes - header_bytes - more - bytes ||
        header_bytes + more > kMaxHeaderBytes;
    if (max_file_bytes > 0 && is_full && !files.back().tensors.empty()) {
      files.emplace_back();
      header_bytes = frame_bytes;
      data_bytes = 0;
    }
    header_bytes += more;
    data_bytes += bytes;
    files.back().tensors.push_back(std::move(tensor));
  }
  return files;
}

// Puts the tensors of a file in order, and says where each lies.
Status LayOut(const Metadata& metadata, PlannedFile& file) {
  std::sort(file.tensors.begin(), file.tensors.end(),
            [](const FileTensor& a, const FileTensor& b) {
              return std::tuple(FileOrder(a.dtype), std::string_view(a.name)) <
                     std::tuple(FileOrder(b.dtype), std::string_view(b.name));
            });
  int64_t end = 0;
  for (FileTensor& tensor : file.tensors) {
    const int64_t bytes = tensor.end - tensor.begin;
    if (__builtin_add_overflow(end, bytes, &end)) {
      return absl::InvalidArgumentError("the tensors are too large");
    }
    tensor.begin = end - bytes;
    tensor.end = end;
  }
  BELAY_ASSIGN_OR_RETURN(
      file.head, HeaderText({.tensors = file.tensors, .metadata = metadata}));
  file.bytes = end + std::ssize(file.head);
  return absl::OkStatus();
}

// As Hugging Face writes it: the bytes of all tensors, and the file of each.
StatusOr<std::string> IndexText(const std::vector<PlannedFile>& files) {
  std::map<std::string_view, std::string_view> file_of;
  int64_t total = 0;
  for (const PlannedFile& file : files) {
    total += file.bytes - std::ssize(file.head);
    for (const FileTensor& tensor : file.tensors) {
      file_of[tensor.name] = file.name;
    }
  }
  std::vector<std::string> lines;
  for (const auto& [tensor, file] : file_of) {
    BELAY_ASSIGN_OR_RETURN(const std::string name, JsonText(tensor));
    BELAY_ASSIGN_OR_RETURN(const std::string file_name, JsonText(file));
    lines.push_back(absl::StrCat("    ", name, ": ", file_name));
  }
  return absl::StrFormat(
      "{\n  \"metadata\": {\n    \"total_size\": %d\n  },\n"
      "  \"weight_map\": {\n%s\n  }\n}\n",
      total, absl::StrJoin(lines, ",\n"));
}

}  // namespace

StatusOr<FilePlan> PlanFiles(std::vector<FileTensor> tensors,
                             const Metadata& metadata, std::string_view stem,
                             int64_t max_file_bytes) {
  std::sort(tensors.begin(), tensors.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  BELAY_ASSIGN_OR_RETURN(const std::string frame,
                         HeaderText({.tensors = {}, .metadata = metadata}));
  FilePlan plan;
  BELAY_ASSIGN_OR_RETURN(
      plan.files, DealOut(std::move(tensors), std::ssize(frame) + kFrameBytes,
                          max_file_bytes));
  const size_t count = plan.files.size();
  for (size_t i = 0; i < count; ++i) {
    PlannedFile& file = plan.files[i];
    file.name =
        count == 1 ? Cat(stem, kFileEnd) : NumberedNameOf(stem, i + 1, count);
    BELAY_RETURN_IF_ERROR(LayOut(metadata, file));
  }
  if (count == 1) return plan;
  plan.index_name = Cat(stem, kIndexEnd);
  BELAY_ASSIGN_OR_RETURN(plan.index_text, IndexText(plan.files));
  return plan;
}

std::optional<NumberedName> ParseNumberedName(std::string_view name) {
  if (!name.ends_with(kFileEnd)) return std::nullopt;
  name.remove_suffix(kFileEnd.size());
  const size_t of = name.rfind("-of-");
  if (of == name.npos || of == 0) return std::nullopt;
  const size_t dash = name.rfind('-', of - 1);
  if (dash == name.npos) return std::nullopt;
  const std::string_view number = name.substr(dash + 1, of - dash - 1);
  const std::string_view count = name.substr(of + 4);
  NumberedName parsed{.stem = std::string(name.substr(0, dash))};
  const auto is_number = [](std::string_view text, int64_t& value) {
    return text.find_first_not_of("0123456789") == text.npos &&
           absl::SimpleAtoi(AbslView(text), &value);
  };
  if (!is_number(number, parsed.number) || !is_number(count, parsed.count)) {
    return std::nullopt;
  }
  return parsed;
}

bool IsNameOfExport(std::string_view name, std::string_view stem) {
  if (name == Cat(stem, kFileEnd) || name == Cat(stem, kIndexEnd)) return true;
  const std::optional<NumberedName> numbered = ParseNumberedName(name);
  return numbered && numbered->stem == stem;
}

}  // namespace belay::safetensors
