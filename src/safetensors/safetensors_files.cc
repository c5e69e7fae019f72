// Opens safetensors files: their index and their headers. JSON is parsed event
// by event, because a tree of the whole index would take ten times as much
// memory as the file.

#include <algorithm>
#include <deque>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_format.h"
#include "core/catch_exceptions.h"
#include "core/process.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "format/paths.h"
#include "nlohmann/json.hpp"
#include "safetensors/import_safetensors.h"
#include "storage/index_file.h"
#include "storage/posix_file.h"

namespace belay::safetensors {
namespace {

using nlohmann::json;

constexpr std::string_view kWeightMap = "weight_map";
// Normal indexes have two levels.
constexpr int kMaxLevels = 64;

// Returns true if the name cannot lead out of its directory.
bool IsPlainName(std::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find('/') == name.npos && name.find('\0') == name.npos;
}

// Handles events of the JSON parser. Each event returns true to continue.
class IndexEvents {
 public:
  bool start_object(size_t) {
    if (depth_ == 1 && member_ == kWeightMap) has_map_ = true;
    return Enter("object");
  }
  bool start_array(size_t) { return Enter("array"); }
  bool end_object() { return Leave(); }
  bool end_array() { return Leave(); }

  bool key(std::string& text) {
    if (depth_ == 1) {
      member_ = text;
      return members_.insert(text).second || Twice(text);
    }
    if (!IsInMap()) return true;
    const auto [at, is_new] = file_of_.try_emplace(text);
    at_ = at;
    return is_new || Twice(text);
  }

  bool string(std::string& text) {
    if (!IsInMap()) return true;
    if (!IsPlainName(text)) {
      status_ = absl::InvalidArgumentError(absl::StrFormat(
          "the file of tensor \"%s\" is not in the directory of the index "
          "(need a name without \"/\", found \"%s\")",
          at_->first, text));
      return false;
    }
    at_->second = text;
    return true;
  }

  bool number_unsigned(uint64_t) { return Other("number"); }
  bool number_integer(int64_t) { return Other("number"); }
  bool number_float(double, const std::string&) { return Other("number"); }
  bool null() { return Other("null"); }
  bool boolean(bool) { return Other("boolean"); }
  bool binary(json::binary_t&) { return Other("binary"); }

  bool parse_error(size_t position, const std::string&,
                   const json::exception&) {
    return Fail(absl::StrFormat("the index is not JSON, at byte %d", position));
  }

  const Status& status() const { return status_; }
  bool has_map() const { return has_map_; }
  FileOfTensor& file_of() { return file_of_; }

 private:
  bool IsInMap() const {
    return has_map_ && depth_ == 2 && member_ == kWeightMap;
  }

  bool Fail(const std::string& message) {
    status_ = absl::DataLossError(message);
    return false;
  }

  bool Twice(const std::string& name) {
    return Fail(absl::StrFormat("the name \"%s\" appears twice", name));
  }

  // Handles a value that is not a string.
  bool Other(const char* kind) {
    if (!IsInMap()) return true;
    return Fail(
        absl::StrFormat("the file of tensor \"%s\" is not a string (found %s)",
                        at_->first, kind));
  }

  bool Enter(const char* kind) {
    if (!Other(kind)) return false;
    ++depth_;
    return true;
  }

  bool Leave() {
    --depth_;
    return true;
  }

  int depth_ = 0;
  std::string member_;  // of the outermost object
  std::set<std::string> members_;
  bool has_map_ = false;
  FileOfTensor file_of_;
  FileOfTensor::iterator at_;  // the last tensor that was named
  Status status_;
};

}  // namespace

StatusOr<FileOfTensor> ParseIndex(std::string_view text) {
  // The parser would stop at a NUL character.
  if (const size_t at = text.find('\0'); at != text.npos) {
    return absl::DataLossError(
        absl::StrFormat("the index is not JSON, at byte %d: a NUL", at));
  }
  const std::string too_much = TooMuchJson(text, kMaxLevels);
  if (!too_much.empty()) return absl::DataLossError("the index: " + too_much);
  IndexEvents events;
  if (!json::sax_parse(text, &events)) return events.status();
  if (!events.has_map()) {
    return absl::DataLossError(
        "the index has no \"weight_map\" of tensors and files");
  }
  return std::move(events.file_of());
}

}  // namespace belay::safetensors

// --- Safetensors files ---

namespace belay {
namespace {

using safetensors::FileTensor;

constexpr std::string_view kJsonEnd = ".json";

Status NameFile(const std::string& path, const Status& status) {
  return Status(status.code(),
                absl::StrFormat("read \"%s\": %s", path, status.message()));
}

StatusOr<std::string> ReadText(PosixFile& file, int64_t offset, int64_t bytes) {
  return CatchBadAlloc(
      absl::StrFormat("%d bytes of \"%s\"", bytes, file.path()),
      [&]() -> StatusOr<std::string> {
        std::string text(bytes, '\0');
        BELAY_RETURN_IF_ERROR(file.PreadAll(offset, text.data(), bytes));
        return text;
      });
}

PosixFile::Mode ChooseOpenMode(Links links) {
  return links == Links::kFollowed ? PosixFile::Mode::kReadLinked
                                   : PosixFile::Mode::kRead;
}

// Sums over all files opened so far. One file may have many names, so the size
// of the files on disk is not a bound. Limits and duplicates are checked after
// each file, not only at the end.
class Headers {
 public:
  Status AddBytes(const std::string& path, int64_t length) {
    using safetensors::kMaxHeaderBytesOfAll;
    bytes_ += length;
    if (bytes_ <= kMaxHeaderBytesOfAll) return absl::OkStatus();
    return NameFile(path, absl::DataLossError(absl::StrFormat(
                              "the headers of all files together are above the "
                              "limit (need at most %d bytes, found %d up to "
                              "here)",
                              kMaxHeaderBytesOfAll, bytes_)));
  }

  // Adds the tensors of a file, and the memory that they take until they are
  // saved.
  Status Add(const SafetensorsFile& file) {
    paths_.push_back(file.path);
    for (const FileTensor& tensor : file.header.tensors) {
      memory_ += kMemoryPerTensor + kMemoryPerNameByte * tensor.name.size();
    }
    const StatusOr<std::optional<int64_t>> said = MaxMetadataBytes();
    if (!said.ok()) return NameFile(file.path, said.status());
    const int64_t most = said->value_or(MetadataBudget(bytes_));
    if (memory_ > most) {
      return NameFile(file.path,
                      absl::ResourceExhaustedError(absl::StrFormat(
                          "the tensors take too much memory; if you trust the "
                          "file, allow more with %s (need %d bytes, found %d)",
                          kMaxMetadataBytes, memory_, most)));
    }
    for (const FileTensor& tensor : file.header.tensors) {
      const auto [at, is_new] = path_of_.emplace(tensor.name, paths_.back());
      if (is_new) continue;
      return NameFile(file.path, absl::InvalidArgumentError(Cat(
                                     "tensor \"", tensor.name, "\" is in \"",
                                     at->second, "\", too")));
    }
    return absl::OkStatus();
  }

 private:
  // Measured with 300,000 tensors, with short and with long names. A header has
  // at least 50 bytes per tensor.
  static constexpr int64_t kMemoryPerTensor = 1800;
  static constexpr int64_t kMemoryPerNameByte = 15;

  int64_t bytes_ = 0;
  int64_t memory_ = 0;
  std::deque<std::string> paths_;
  absl::flat_hash_map<std::string, std::string_view> path_of_;
};

StatusOr<SafetensorsFile> OpenFile(const std::string& path, Links links,
                                   Headers& headers) {
  using safetensors::kLengthBytes;
  BELAY_ASSIGN_OR_RETURN(PosixFile file,
                         PosixFile::Open(path, ChooseOpenMode(links)));
  BELAY_ASSIGN_OR_RETURN(const FileStat stat, file.Stat());
  BELAY_ASSIGN_OR_RETURN(const std::string first,
                         ReadText(file, 0, std::min(stat.size, kLengthBytes)));
  const StatusOr<int64_t> length = safetensors::HeaderLength(first, stat.size);
  if (!length.ok()) return NameFile(path, length.status());
  BELAY_RETURN_IF_ERROR(headers.AddBytes(path, *length));
  BELAY_ASSIGN_OR_RETURN(const std::string text,
                         ReadText(file, kLengthBytes, *length));
  BELAY_RETURN_IF_ERROR(file.Close());
  SafetensorsFile opened{.path = path,
                         .bytes = stat.size,
                         .modified_ns = stat.modified_ns,
                         .data_offset = kLengthBytes + *length};
  StatusOr<safetensors::FileHeader> header =
      CatchBadAlloc(Cat("the header of \"", path, "\""), [&] {
        return safetensors::ParseHeader(text, stat.size - opened.data_offset);
      });
  if (!header.ok()) return NameFile(path, header.status());
  opened.header = *std::move(header);
  BELAY_RETURN_IF_ERROR(headers.Add(opened));
  return opened;
}

// Checks that the index and the headers of its files name the same tensors.
Status CheckAgainstIndex(const std::string& path,
                         safetensors::FileOfTensor file_of,
                         const std::vector<SafetensorsFile>& files) {
  for (const SafetensorsFile& file : files) {
    for (const FileTensor& tensor : file.header.tensors) {
      const auto found = file_of.find(tensor.name);
      if (found == file_of.end() || found->second != GetLastName(file.path)) {
        return NameFile(path,
                        absl::DataLossError(absl::StrFormat(
                            "the index does not say that tensor \"%s\" is "
                            "in \"%s\"",
                            tensor.name, GetLastName(file.path))));
      }
      file_of.erase(found);
    }
  }
  if (file_of.empty()) return absl::OkStatus();
  return NameFile(path, absl::DataLossError(absl::StrFormat(
                            "tensor \"%s\" is not in \"%s\", where the index "
                            "says it is",
                            file_of.begin()->first, file_of.begin()->second)));
}

StatusOr<std::vector<SafetensorsFile>> OpenIndex(const std::string& path,
                                                 Links links,
                                                 Headers& headers) {
  BELAY_ASSIGN_OR_RETURN(PosixFile opened,
                         PosixFile::Open(path, ChooseOpenMode(links)));
  BELAY_ASSIGN_OR_RETURN(const FileStat stat, opened.Stat());
  if (stat.size > safetensors::kMaxHeaderBytes) {
    return NameFile(path, absl::DataLossError(absl::StrFormat(
                              "the index is above the limit (need at most %d "
                              "bytes, found %d)",
                              safetensors::kMaxHeaderBytes, stat.size)));
  }
  BELAY_ASSIGN_OR_RETURN(const std::string text,
                         ReadText(opened, 0, stat.size));
  BELAY_RETURN_IF_ERROR(opened.Close());
  const StatusOr<safetensors::FileOfTensor> index =
      CatchBadAlloc(Cat("the index \"", path, "\""),
                    [&] { return safetensors::ParseIndex(text); });
  if (!index.ok()) return NameFile(path, index.status());
  std::vector<std::string_view> names;  // views, because an index of 100 MB may
                                        // have many
  names.reserve(index->size());
  for (const auto& [tensor, file] : *index) names.push_back(file);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  std::vector<SafetensorsFile> files;
  for (const std::string_view name : names) {
    StatusOr<SafetensorsFile> file = OpenFile(
        JoinPath(GetParent(path), std::string(name)), Links::kRefused, headers);
    if (absl::IsNotFound(file.status())) {  // although the index names it
      return NameFile(
          path, absl::DataLossError(Cat("the file \"", name, "\" is missing")));
    }
    BELAY_RETURN_IF_ERROR(file.status());
    files.push_back(*std::move(file));
  }
  BELAY_RETURN_IF_ERROR(CheckAgainstIndex(path, *index, files));
  return files;
}

// Checks that all files of each numbered series exist. The index is written
// last, so while a series is being written there is no index to check it
// against.
Status CheckSeries(const std::string& path,
                   const std::vector<std::string>& names) {
  std::map<std::pair<std::string, int64_t>, int64_t> found;
  for (const std::string& name : names) {
    const auto numbered = safetensors::ParseNumberedName(name);
    if (numbered) ++found[{numbered->stem, numbered->count}];
  }
  for (const auto& [series, count] : found) {
    if (count == series.second) continue;
    return NameFile(path, absl::DataLossError(absl::StrFormat(
                              "files of \"%s\" are missing (need %d, found %d)",
                              series.first, series.second, count)));
  }
  return absl::OkStatus();
}

StatusOr<std::vector<SafetensorsFile>> OpenFolder(
    const std::string& path, const std::vector<std::string>& names,
    Headers& headers) {
  std::vector<std::string> indexes, files;
  for (const std::string& name : names) {
    if (name.ends_with(safetensors::kIndexEnd)) indexes.push_back(name);
    if (name.ends_with(safetensors::kFileEnd)) files.push_back(name);
  }
  if (indexes.size() > 1) {
    return NameFile(path, absl::InvalidArgumentError(absl::StrFormat(
                              "the directory has several indexes, \"%s\" and "
                              "\"%s\"; name one of them",
                              indexes[0], indexes[1])));
  }
  if (indexes.size() == 1) {
    return OpenIndex(JoinPath(path, indexes[0]), Links::kRefused, headers);
  }
  if (files.empty()) {
    return NameFile(path, absl::NotFoundError(
                              Cat("the directory has no file that ends with \"",
                                  safetensors::kFileEnd, "\"")));
  }
  BELAY_RETURN_IF_ERROR(CheckSeries(path, files));
  std::vector<SafetensorsFile> opened;
  for (const std::string& name : files) {
    BELAY_ASSIGN_OR_RETURN(
        opened.emplace_back(),
        OpenFile(JoinPath(path, name), Links::kRefused, headers));
  }
  return opened;
}

StatusOr<std::vector<SafetensorsFile>> OpenPath(const std::string& path,
                                                Headers& headers) {
  const StatusOr<std::vector<std::string>> names = ListDirectory(path);
  if (names.ok()) return OpenFolder(WithoutSlashes(path), *names, headers);
  if (!absl::IsInvalidArgument(names.status())) return names.status();
  if (path.ends_with(kJsonEnd))
    return OpenIndex(path, Links::kFollowed, headers);
  BELAY_ASSIGN_OR_RETURN(SafetensorsFile file,
                         OpenFile(path, Links::kFollowed, headers));
  std::vector<SafetensorsFile> files;
  files.push_back(std::move(file));
  return files;
}

}  // namespace

StatusOr<std::vector<SafetensorsFile>> OpenSafetensors(
    const std::vector<std::string>& paths) {
  std::vector<SafetensorsFile> all;
  Headers headers;
  for (const std::string& path : paths) {
    BELAY_ASSIGN_OR_RETURN(std::vector<SafetensorsFile> files,
                           OpenPath(path, headers));
    std::move(files.begin(), files.end(), std::back_inserter(all));
  }
  return all;
}

}  // namespace belay
