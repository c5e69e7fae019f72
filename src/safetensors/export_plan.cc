#include "safetensors/export_plan.h"

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "belay/arrays/flat_buffer.h"
#include "core/status_macros.h"
#include "core/text.h"

namespace belay::safetensors {

namespace {

constexpr int64_t kMaxUnitBytes = int64_t{1} << 20;

int64_t Stride(const Shape& shape, size_t axis) {
  int64_t elements = 1;
  for (size_t i = axis + 1; i < shape.size(); ++i) elements *= shape[i];
  return elements;
}

// Returns total * part / parts without overflow.
int64_t ComputeShare(int64_t total, int64_t part, int64_t parts) {
  return total / parts * part + total % parts * part / parts;
}

// Returns the element at which to cut a tensor so that the cut is close to byte
// `target`. The tensor begins at byte `first`.
int64_t CutNear(const FileTensor& tensor, int64_t first, int64_t target) {
  const int64_t bytes = tensor.end - tensor.begin;
  const int64_t size = DTypeSize(tensor.dtype);
  const int64_t unit = UnitElements(tensor) * size;
  const int64_t wanted = std::clamp<int64_t>(target - first, 0, bytes);
  const int64_t units = wanted / unit + (wanted % unit > unit / 2 ? 1 : 0);
  return std::min(units * unit, bytes) / size;
}

}  // namespace

int64_t UnitElements(const FileTensor& tensor) {
  const int64_t size = DTypeSize(tensor.dtype);
  for (size_t axis = 0; axis < tensor.shape.size(); ++axis) {
    const int64_t elements = Stride(tensor.shape, axis);
    if (elements > 0 && elements <= kMaxUnitBytes / size) return elements;
  }
  return 1;
}

std::vector<std::vector<TensorRange>> EvenShares(
    const std::vector<FileTensor>& tensors, int num_ranks) {
  int64_t total = 0;
  for (const FileTensor& tensor : tensors) total += tensor.end - tensor.begin;
  std::vector<std::vector<TensorRange>> shares(num_ranks);
  int64_t first = 0;
  int rank = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const int64_t bytes = tensors[i].end - tensors[i].begin;
    const auto number = static_cast<int64_t>(i);
    if (bytes == 0) {
      shares[0].push_back({.tensor = number});
      continue;
    }
    const int64_t elements = bytes / DTypeSize(tensors[i].dtype);
    for (int64_t begin = 0; begin < elements;) {
      const int64_t until = ComputeShare(total, rank + 1, num_ranks);
      const int64_t end =
          rank + 1 == num_ranks
              ? elements
              : std::max(begin, CutNear(tensors[i], first, until));
      if (end > begin) shares[rank].push_back({number, begin, end});
      if (end < elements) ++rank;
      begin = end;
    }
    first += bytes;
  }
  return shares;
}

// --- Files ---

namespace {

// Upper bound of the bytes of a header besides its metadata and tensors: its
// length, braces, and padding.
constexpr int64_t kFrameBytes = 24;

std::string MakeNumberedName(std::string_view stem, size_t number,
                             size_t count) {
  return absl::StrFormat("%s-%05d-of-%05d%s", AbslView(stem), number, count,
                         AbslView(kFileEnd));
}

// Returns the most bytes that a header needs for a tensor. The offsets have at
// most as many digits as the length of the file.
StatusOr<int64_t> MostHeaderBytes(FileTensor tensor, int64_t max_file_bytes) {
  tensor.end = std::max(tensor.end - tensor.begin, max_file_bytes);
  tensor.begin = tensor.end;
  BELAY_ASSIGN_OR_RETURN(const std::string text, TensorText(tensor));
  return std::ssize(text) + 1;  // plus a comma
}

Status TooSmall(const std::string& what, int64_t header_bytes,
                int64_t max_file_bytes) {
  return absl::InvalidArgumentError(absl::StrFormat(
      "max_file_bytes is too small for a header with %s (need at least %d, "
      "found %d)",
      what, header_bytes, max_file_bytes));
}

// Checks that the header of a file can hold the tensor.
Status CheckHolds(int64_t frame_bytes, const FileTensor& tensor,
                  int64_t max_file_bytes) {
  BELAY_ASSIGN_OR_RETURN(int64_t more, MostHeaderBytes(tensor, max_file_bytes));
  if (max_file_bytes == 0 || frame_bytes + more <= max_file_bytes) {
    return absl::OkStatus();
  }
  // In a longer file, offsets may have more digits.
  BELAY_ASSIGN_OR_RETURN(more, MostHeaderBytes(tensor, frame_bytes + more));
  return TooSmall(Cat("tensor \"", tensor.name, "\""), frame_bytes + more,
                  max_file_bytes);
}

StatusOr<std::vector<PlannedFile>> Distribute(std::vector<FileTensor> tensors,
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

// Sorts the tensors of a file, and sets their offsets.
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

// Returns the index in the format of Hugging Face: the total bytes of all
// tensors, and the file of each tensor.
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
      plan.files, Distribute(std::move(tensors),
                             std::ssize(frame) + kFrameBytes, max_file_bytes));
  const size_t count = plan.files.size();
  for (size_t i = 0; i < count; ++i) {
    PlannedFile& file = plan.files[i];
    file.name =
        count == 1 ? Cat(stem, kFileEnd) : MakeNumberedName(stem, i + 1, count);
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

// --- Windows ---

namespace {

// Adds ranges of tensors to one rank's part, window by window.
class Windows {
 public:
  Windows(RankExport& part, int64_t max_bytes)
      : part_(part), max_bytes_(max_bytes) {}

  // Adds elements of a tensor whose data begins at `offset` in its file.
  void Add(const FileTensor& tensor, int32_t file, int64_t offset,
           const TensorRange& range) {
    const int64_t size = DTypeSize(tensor.dtype);
    const int64_t unit = UnitElements(tensor);
    for (int64_t begin = range.begin; begin < range.end;) {
      const int64_t room = Room(file);
      int64_t elements = std::min(range.end - begin, room / size);
      const bool ends_here = begin + elements == range.end;
      if (!ends_here && elements < unit && room < max_bytes_) {
        is_open_ = false;  // the next window takes whole rows
        continue;
      }
      if (!ends_here && elements >= unit) elements -= (begin + elements) % unit;
      Grow(file, offset + begin * size, elements * size);
      AddBoxes(tensor, begin, begin + elements);
      begin += elements;
    }
  }

 private:
  int64_t Room(int32_t file) const {
    const bool goes_on = is_open_ && part_.windows.back().file == file;
    return goes_on ? max_bytes_ - part_.windows.back().bytes : max_bytes_;
  }

  void Grow(int32_t file, int64_t offset, int64_t bytes) {
    if (!is_open_ || part_.windows.back().file != file) {
      const auto shard = static_cast<int32_t>(part_.shards.size());
      part_.windows.push_back({.file = file,
                               .offset = offset,
                               .begin_shard = shard,
                               .end_shard = shard});
      is_open_ = true;
    }
    part_.windows.back().bytes += bytes;
  }

  void AddBoxes(const FileTensor& tensor, int64_t begin, int64_t end) {
    for (Box& box : BoxesOfRange(WholeBox(tensor.shape), begin, end)) {
      part_.shards.push_back({.key = tensor.name,
                              .dtype = tensor.dtype,
                              .global_shape = tensor.shape,
                              .box = std::move(box)});
    }
    part_.windows.back().end_shard = static_cast<int32_t>(part_.shards.size());
  }

  RankExport& part_;
  int64_t max_bytes_;
  bool is_open_ = false;
};

// Limits the number of full windows. In addition, each file and each rank has
// at most one window that is not full.
Status CheckWindows(const FilePlan& files, int64_t max_bytes) {
  int64_t bytes = 0;
  for (const PlannedFile& file : files.files) {
    if (__builtin_add_overflow(bytes, file.bytes, &bytes)) bytes = INT64_MAX;
  }
  if (bytes / max_bytes <= kMaxWindows) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat(
      "max_bytes_in_flight is too small for an export of %d bytes (need at "
      "least %d, found %d)",
      bytes, bytes / kMaxWindows + 1, max_bytes));
}

}  // namespace

StatusOr<std::vector<RankExport>> PlanExport(const FilePlan& files,
                                             int num_ranks, int64_t max_bytes) {
  BELAY_RETURN_IF_ERROR(CheckWindows(files, max_bytes));
  std::vector<FileTensor> tensors;
  std::vector<int32_t> file_of;
  for (size_t i = 0; i < files.files.size(); ++i) {
    for (const FileTensor& tensor : files.files[i].tensors) {
      tensors.push_back(tensor);
      file_of.push_back(static_cast<int32_t>(i));
    }
  }
  std::vector<RankExport> ranks(num_ranks);
  const std::vector<std::vector<TensorRange>> shares =
      EvenShares(tensors, num_ranks);
  for (int rank = 0; rank < num_ranks; ++rank) {
    Windows windows(ranks[rank], max_bytes);
    for (const TensorRange& range : shares[rank]) {
      const FileTensor& tensor = tensors[range.tensor];
      const int32_t file = file_of[range.tensor];
      const int64_t offset = std::ssize(files.files[file].head) + tensor.begin;
      windows.Add(tensor, file, offset, range);
    }
  }
  return ranks;
}

}  // namespace belay::safetensors
