#include "safetensors/safetensors_files.h"

#include <algorithm>
#include <deque>
#include <iterator>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_format.h"
#include "base/catch_bad_alloc.h"
#include "base/status_macros.h"
#include "base/symbolic_links.h"
#include "base/text.h"
#include "format/paths.h"
#include "io/files/posix_file.h"
#include "io/index/hdf5_bytes.h"
#include "safetensors/plan/file_plan.h"

namespace belay {
namespace {

using safetensors::FileTensor;

constexpr std::string_view kJsonEnd = ".json";

Status OfFile(const std::string& path, const Status& status) {
  return Status(status.code(),
                absl::StrFormat("read \"%s\": %s", path, status.message()));
}

// Reads a file from `offset` on, so many bytes.
StatusOr<std::string> ReadText(PosixFile& file, int64_t offset, int64_t bytes) {
  return CatchBadAlloc(
      absl::StrFormat("%d bytes of \"%s\"", bytes, file.path()),
      [&]() -> StatusOr<std::string> {
        std::string text(bytes, '\0');
        BELAY_RETURN_IF_ERROR(file.PreadAll(offset, text.data(), bytes));
        return text;
      });
}

PosixFile::Mode OpenModeOf(Links links) {
  return links == Links::kFollowed ? PosixFile::Mode::kReadLinked
                                   : PosixFile::Mode::kRead;
}

// What the files opened so far hold. One file may have many names, so the space
// that they take is no bound: what is too much or stands twice is refused at
// the first file, not after all of them.
class Headers {
 public:
  Status AddBytes(int64_t length) {
    using safetensors::kMaxHeaderBytesOfAll;
    bytes_ += length;
    if (bytes_ <= kMaxHeaderBytesOfAll) return absl::OkStatus();
    return absl::DataLossError(absl::StrFormat(
        "the headers of all files together are above the limit (need at most "
        "%d bytes, found %d up to here)",
        kMaxHeaderBytesOfAll, bytes_));
  }

  // Charges the memory that the tensors take until they are saved.
  Status Charge(const std::vector<FileTensor>& tensors) {
    for (const FileTensor& tensor : tensors) {
      memory_ += kMemoryPerTensor + kMemoryPerNameByte * tensor.name.size();
    }
    BELAY_ASSIGN_OR_RETURN(const std::optional<int64_t> said,
                           MaxMetadataBytes());
    const int64_t most = said ? *said : MetadataBudget(bytes_);
    if (memory_ <= most) return absl::OkStatus();
    return absl::ResourceExhaustedError(absl::StrFormat(
        "the tensors take too much memory; if you trust the file, allow more "
        "with %s (need %d bytes, found %d)",
        kMaxMetadataBytes, memory_, most));
  }

  Status AddNames(const SafetensorsFile& file) {
    paths_.push_back(file.path);
    for (const FileTensor& tensor : file.header.tensors) {
      const auto [at, is_new] = path_of_.emplace(tensor.name, paths_.back());
      if (is_new) continue;
      return absl::InvalidArgumentError(
          Cat("tensor \"", tensor.name, "\" is in \"", at->second, "\", too"));
    }
    return absl::OkStatus();
  }

 private:
  // As measured: of each of 300,000 tensors with short names and with longer
  // ones. A header has at least 50 bytes for each.
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
                         PosixFile::Open(path, OpenModeOf(links)));
  BELAY_ASSIGN_OR_RETURN(const FileStat stat, file.Stat());
  BELAY_ASSIGN_OR_RETURN(const std::string first,
                         ReadText(file, 0, std::min(stat.size, kLengthBytes)));
  const StatusOr<int64_t> length = safetensors::HeaderLength(first, stat.size);
  if (!length.ok()) return OfFile(path, length.status());
  if (const Status added = headers.AddBytes(*length); !added.ok()) {
    return OfFile(path, added);
  }
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
  if (!header.ok()) return OfFile(path, header.status());
  opened.header = *std::move(header);
  if (const Status fits = headers.Charge(opened.header.tensors); !fits.ok()) {
    return OfFile(path, fits);
  }
  if (const Status added = headers.AddNames(opened); !added.ok()) {
    return OfFile(path, added);
  }
  return opened;
}

// Checks that the index and the headers of its files name the same tensors.
Status CheckAgainstIndex(const std::string& path,
                         safetensors::FileOfTensor file_of,
                         const std::vector<SafetensorsFile>& files) {
  for (const SafetensorsFile& file : files) {
    for (const FileTensor& tensor : file.header.tensors) {
      const auto found = file_of.find(tensor.name);
      if (found == file_of.end() || found->second != NameOf(file.path)) {
        return OfFile(path, absl::DataLossError(absl::StrFormat(
                                "the index does not say that tensor \"%s\" is "
                                "in \"%s\"",
                                tensor.name, NameOf(file.path))));
      }
      file_of.erase(found);
    }
  }
  if (file_of.empty()) return absl::OkStatus();
  return OfFile(path, absl::DataLossError(absl::StrFormat(
                          "tensor \"%s\" is not in \"%s\", where the index "
                          "says it is",
                          file_of.begin()->first, file_of.begin()->second)));
}

StatusOr<std::vector<SafetensorsFile>> OpenIndex(const std::string& path,
                                                 Links links,
                                                 Headers& headers) {
  BELAY_ASSIGN_OR_RETURN(PosixFile opened,
                         PosixFile::Open(path, OpenModeOf(links)));
  BELAY_ASSIGN_OR_RETURN(const FileStat stat, opened.Stat());
  if (stat.size > safetensors::kMaxHeaderBytes) {
    return OfFile(path, absl::DataLossError(absl::StrFormat(
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
  if (!index.ok()) return OfFile(path, index.status());
  std::vector<std::string_view> names;  // an index of 100 MB may have many
  names.reserve(index->size());
  for (const auto& [tensor, file] : *index) names.push_back(file);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  std::vector<SafetensorsFile> files;
  for (const std::string_view name : names) {
    StatusOr<SafetensorsFile> file = OpenFile(
        JoinPath(ParentOf(path), std::string(name)), Links::kRefused, headers);
    if (absl::IsNotFound(file.status())) {  // the index promises it
      return OfFile(
          path, absl::DataLossError(Cat("the file \"", name, "\" is missing")));
    }
    BELAY_RETURN_IF_ERROR(file.status());
    files.push_back(*std::move(file));
  }
  BELAY_RETURN_IF_ERROR(CheckAgainstIndex(path, *index, files));
  return files;
}

// Checks that of each numbered series all files are there: the index of one
// that is being written comes last.
Status CheckSeries(const std::string& path,
                   const std::vector<std::string>& names) {
  std::map<std::pair<std::string, int64_t>, int64_t> found;
  for (const std::string& name : names) {
    const auto numbered = safetensors::ParseNumberedName(name);
    if (numbered) ++found[{numbered->stem, numbered->count}];
  }
  for (const auto& [series, count] : found) {
    if (count == series.second) continue;
    return OfFile(path, absl::DataLossError(absl::StrFormat(
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
    return OfFile(path, absl::InvalidArgumentError(absl::StrFormat(
                            "the directory has several indexes, \"%s\" and "
                            "\"%s\"; name one of them",
                            indexes[0], indexes[1])));
  }
  if (indexes.size() == 1) {
    return OpenIndex(JoinPath(path, indexes[0]), Links::kRefused, headers);
  }
  if (files.empty()) {
    return OfFile(path, absl::NotFoundError(
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
  // Not a directory.
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
