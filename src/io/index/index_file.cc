#include "io/index/index_file.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "bytes/checksum.h"
#include "bytes/fingerprint.h"
#include "bytes/wire.h"
#include "format/index_columns.h"
#include "format/paths.h"
#include "format/stored_columns.h"
#include "hdf5_format/write/file_metadata.h"
#include "hdf5_format/write/group_links.h"
#include "hdf5_format/write/write_link_heap.h"
#include "io/files/posix_file.h"
#include "io/index/hdf5_bytes.h"

namespace belay {
namespace {

// The datasets of one array: [begin, end) of the sorted list.
using Datasets = std::span<const StoredDataset>;

// An index as it is put together.
struct IndexParts {
  std::vector<h5::DatasetSpec> datasets;
  std::vector<std::string_view> values;  // by dataset
  std::vector<h5::ExternalLink> links;
  std::vector<h5::VirtualDataset> virtuals;
  std::vector<StoredColumn> columns;  // whose bytes are values
};

// Shows an array under its key: a link to its dataset, or its pieces put
// together.
void PresentArray(const std::string& path, const SavedCheckpoint& saved,
                  const StoredArray& array, Datasets datasets,
                  IndexParts& parts) {
  h5::DatasetSpec spec = {.path = path,
                          .dtype = array.dtype,
                          .string_bytes = array.string_bytes,
                          .shape = array.shape,
                          .chunk = {},
                          .fields = array.fields};
  if (!datasets.empty() && datasets[0].box == WholeBox(IoShape(array))) {
    parts.links.push_back({path, saved.files[datasets[0].file].name, path});
    return;
  }
  if (datasets.empty() || NumElements(array.shape) == 0) {
    parts.datasets.push_back(std::move(spec));
    parts.values.emplace_back();
    return;
  }
  h5::VirtualDataset shown = {.spec = std::move(spec), .pieces = {}};
  for (const StoredDataset& dataset : datasets) {
    shown.pieces.push_back({saved.files[dataset.file].name,
                            DatasetPath(path, array, dataset), dataset.box});
  }
  parts.virtuals.push_back(std::move(shown));
}

void PresentArrays(const SavedCheckpoint& saved, IndexParts& parts) {
  const std::vector<std::string> paths = ObjectPaths(saved.arrays);
  size_t begin = 0;
  for (size_t i = 0; i < saved.arrays.size(); ++i) {
    size_t end = begin;
    while (end < saved.datasets.size() &&
           saved.datasets[end].array == static_cast<int32_t>(i)) {
      ++end;
    }
    PresentArray(paths[i], saved, saved.arrays[i],
                 Datasets(saved.datasets).subspan(begin, end - begin), parts);
    begin = end;
  }
}

void AddColumn(StoredColumn column, IndexParts& parts) {
  const bool is_text = column.dtype == DType::kString;
  parts.datasets.push_back({column.path,
                            column.dtype,
                            is_text ? column.width : 0,
                            {column.rows},
                            {}});
  parts.values.emplace_back(reinterpret_cast<const char*>(column.bytes.get()),
                            static_cast<size_t>(column.rows * column.width));
  parts.columns.push_back(std::move(column));
}

// NULs fill up the shorter texts of a column.
Status CheckTexts(const char* path, const std::vector<std::string>& texts) {
  for (const std::string& text : texts) {
    if (text.find('\0') != text.npos) {
      return absl::InvalidArgumentError(
          absl::StrFormat("write \"%s\": a text has a NUL in it", path));
    }
  }
  return absl::OkStatus();
}

Status AddColumns(const IndexColumns& columns, IndexParts& parts) {
  Status status;
  for (uint32_t minor = 0; minor <= kFormatMinor; ++minor) {
    ForEachColumn(minor, columns, [&](const char* path, const auto& column) {
      using T = typename std::decay_t<decltype(column)>::value_type;
      if constexpr (std::is_same_v<T, std::string>) {
        if (status.ok()) status = CheckTexts(path, column);
      }
    });
  }
  BELAY_RETURN_IF_ERROR(status);
  StoredColumns stored = ToStoredColumns(columns);
  const IndexDigest digest = DigestOf(stored);
  for (uint32_t minor = 0; minor <= kFormatMinor; ++minor) {
    if (!HaveColumns(minor, columns)) continue;
    const uint32_t added = DigestOfAdded(minor, stored);
    for (StoredColumn& column : stored.added[minor]) {
      AddColumn(std::move(column), parts);
    }
    if (minor == 0) continue;
    AddColumn(
        ToStoredColumn(AddedDigestColumn(minor), std::vector<uint32_t>{added}),
        parts);
  }
  AddColumn(
      ToStoredColumn(kDigestColumn,
                     std::vector<uint32_t>{digest.structure, digest.values}),
      parts);
  return absl::OkStatus();
}

// Why HDF5 has no place for the objects of an index.
Status NoPlace(const std::string& path, const IndexParts& parts) {
  const auto too_long = [&](std::string_view object, int64_t bytes) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "create \"%s\": the name of \"%s...\" is too long for HDF5; use a "
        "shorter key (need at most %d bytes for its last part and where it "
        "leads to, found %d)",
        path, AbslView(object.substr(0, 64)), h5::kMaxLinkBytes, bytes));
  };
  const auto bytes_of = [](std::string_view object, std::string_view file,
                           std::string_view target) {
    int64_t most = 0;
    for (size_t begin = 0; begin <= object.size();) {
      const size_t end = std::min(object.find('/', begin), object.size());
      h5::Link link = {.name = object.substr(begin, end - begin)};
      if (end == object.size()) link.file = file;
      if (end == object.size()) link.target = target;
      most = std::max(most, h5::LinkBytes(link));
      begin = end + 1;
    }
    return most;
  };
  for (const h5::ExternalLink& link : parts.links) {
    const int64_t bytes = bytes_of(link.path, link.file, link.target);
    if (bytes > h5::kMaxLinkBytes) return too_long(link.path, bytes);
  }
  for (const h5::DatasetSpec& spec : parts.datasets) {
    const int64_t bytes = bytes_of(spec.path, {}, {});
    if (bytes > h5::kMaxLinkBytes) return too_long(spec.path, bytes);
  }
  for (const h5::VirtualDataset& dataset : parts.virtuals) {
    const int64_t bytes = bytes_of(dataset.spec.path, {}, {});
    if (bytes > h5::kMaxLinkBytes) return too_long(dataset.spec.path, bytes);
  }
  return absl::ResourceExhaustedError(absl::StrFormat(
      "create \"%s\": one group has more names than HDF5 has a place for; "
      "spread the keys over more groups (\"/\" separates them)",
      path));
}

// The datasets ascending by array, and a zero for every checksum to come.
SavedCheckpoint SortedWithRoomForChecksums(const SavedCheckpoint& saved) {
  SavedCheckpoint sorted = saved;
  std::sort(sorted.datasets.begin(), sorted.datasets.end(),
            [](const StoredDataset& a, const StoredDataset& b) {
              return std::tie(a.array, a.box.offset) <
                     std::tie(b.array, b.box.offset);
            });
  int64_t blocks = 0;
  for (const StoredArray& array : sorted.arrays) {
    blocks += NumBlocks(ArrayBytes(array));
  }
  sorted.checksums.assign(sorted.has_checksums ? blocks : 0, 0);
  return sorted;
}

}  // namespace

StatusOr<IndexImage> CreateIndex(const std::string& path,
                                 const SavedCheckpoint& saved) {
  const SavedCheckpoint sorted = SortedWithRoomForChecksums(saved);
  IndexParts parts;
  PresentArrays(sorted, parts);
  BELAY_RETURN_IF_ERROR(AddColumns(ToColumns(sorted), parts));
  BELAY_ASSIGN_OR_RETURN(
      std::optional<h5::FileMetadata> metadata,
      h5::EncodeFileMetadata({parts.datasets, parts.links, parts.virtuals}));
  if (!metadata.has_value()) return NoPlace(path, parts);
  IndexImage image = {.bytes = std::move(metadata->bytes)};
  image.bytes.resize(metadata->file_bytes, '\0');
  for (size_t i = 0; i < parts.values.size(); ++i) {
    const int64_t offset = metadata->offsets[i];
    if (offset < 0) continue;
    image.bytes.replace(offset, parts.values[i].size(), parts.values[i]);
    const std::string& column = parts.datasets[i].path;
    if (column == kStepColumn) image.step_offset = offset;
    if (column == kChecksumColumn) image.checksum_offset = offset;
    if (column == kDigestColumn) image.digest_offset = offset;
  }
  BELAY_RETURN_IF_ERROR(WriteNewIndex(path, image));
  return image;
}

Status CreateEmptyIndex(const std::string& path) {
  BELAY_ASSIGN_OR_RETURN(PosixFile file,
                         PosixFile::Open(path, PosixFile::Mode::kCreate));
  return file.Close();
}

Status WriteNewIndex(const std::string& path, const IndexImage& image) {
  BELAY_ASSIGN_OR_RETURN(PosixFile file,
                         PosixFile::Open(path, PosixFile::Mode::kCreate));
  BELAY_RETURN_IF_ERROR(file.PwriteAll(
      0, image.bytes.data(), static_cast<int64_t>(image.bytes.size())));
  return file.Close();
}

Status FinishIndex(const std::string& path, const IndexImage& image,
                   int64_t step, const std::vector<uint32_t>& checksums,
                   bool durable, const std::function<Status()>& once_open) {
  BELAY_ASSIGN_OR_RETURN(PosixFile file,
                         PosixFile::Open(path, PosixFile::Mode::kWrite));
  if (once_open) BELAY_RETURN_IF_ERROR(once_open());
  BELAY_RETURN_IF_ERROR(file.PwriteAll(image.step_offset, &step, sizeof(step)));
  if (image.checksum_offset >= 0) {
    BELAY_RETURN_IF_ERROR(file.PwriteAll(
        image.checksum_offset, checksums.data(),
        static_cast<int64_t>(checksums.size() * sizeof(uint32_t))));
  }
  // The second of two digests; see AddColumns.
  const uint32_t digest = DigestOfValues(step, checksums);
  BELAY_RETURN_IF_ERROR(file.PwriteAll(image.digest_offset + sizeof(digest),
                                       &digest, sizeof(digest)));
  if (durable) BELAY_RETURN_IF_ERROR(file.Sync());
  return file.Close();
}

StatusOr<uint64_t> FileIdentity(const std::string& path) {
  BELAY_ASSIGN_OR_RETURN(PosixFile file,
                         PosixFile::Open(path, PosixFile::Mode::kRead));
  BELAY_ASSIGN_OR_RETURN(const FileStat stat, file.Stat());
  BELAY_RETURN_IF_ERROR(file.Close());
  WireWriter out;
  out.Put(stat.size);
  out.Put(stat.number);
  out.Put(stat.modified_ns);
  return Fingerprint(out.bytes()) | 1;
}

StatusOr<uint64_t> IndexIdentity(const std::string& directory) {
  return FileIdentity(JoinPath(directory, IndexName()));
}

namespace {

// `found` is what has the path now; `what` it is.
Status CheckIdentity(std::string_view operation, const std::string& path,
                     std::string_view what, uint64_t identity,
                     const StatusOr<uint64_t>& found) {
  if (found.ok() && *found == identity) return absl::OkStatus();
  if (!found.ok() && !absl::IsNotFound(found.status())) return found.status();
  return absl::FailedPreconditionError(
      Cat(operation, " \"", path, "\": the ", what, " was ",
          found.ok() ? "replaced by another save" : "deleted",
          " while it was read; read again what is there now"));
}

}  // namespace

Status CheckSameFile(std::string_view operation, const std::string& path,
                     uint64_t identity) {
  return CheckIdentity(operation, path, "file", identity, FileIdentity(path));
}

Status CheckSameStep(std::string_view operation, const std::string& directory,
                     uint64_t identity) {
  return CheckIdentity(operation, directory, "step", identity,
                       IndexIdentity(directory));
}

Status CheckDataFiles(const std::string& directory,
                      const SavedCheckpoint& saved) {
  for (const StoredFile& expected : saved.files) {
    const std::string path = JoinPath(directory, expected.name);
    StatusOr<PosixFile> file = PosixFile::Open(path, PosixFile::Mode::kRead);
    if (absl::IsNotFound(file.status())) {
      return absl::DataLossError(
          absl::StrFormat("open \"%s\": the data file is missing (need %d "
                          "bytes, found none)",
                          path, expected.bytes));
    }
    BELAY_RETURN_IF_ERROR(file.status());
    BELAY_ASSIGN_OR_RETURN(const FileStat stat, file->Stat());
    if (stat.size != expected.bytes) {
      return absl::DataLossError(absl::StrFormat(
          "open \"%s\": the data file is %s (need %d bytes, found %d)", path,
          stat.size < expected.bytes ? "truncated" : "too long", expected.bytes,
          stat.size));
    }
  }
  return absl::OkStatus();
}

Status CheckChunksFit(std::string_view operation, const std::string& directory,
                      const SavedCheckpoint& saved) {
  // A plan takes about half as much for each. The limits of an index, which the
  // chunks are below, leave room to add them.
  constexpr int64_t kBytesOfChunk = 512;
  constexpr int64_t kFewChunks = int64_t{1} << 17;
  int64_t chunks = 0;
  for (const StoredDataset& dataset : saved.datasets) {
    if (dataset.chunk.empty() || !dataset.filters.empty()) continue;
    chunks += NumElements(ChunkGrid(dataset));
  }
  if (chunks <= kFewChunks) return absl::OkStatus();
  int64_t most = kFewChunks;
  for (const StoredFile& expected : saved.files) {
    const StatusOr<PosixFile> file = PosixFile::Open(
        JoinPath(directory, expected.name), PosixFile::Mode::kRead);
    if (absl::IsNotFound(file.status())) continue;
    BELAY_RETURN_IF_ERROR(file.status());
    BELAY_ASSIGN_OR_RETURN(const FileStat stat, file->Stat());
    most += BytesWithoutHoles(*file, stat) / kBytesOfChunk;
  }
  if (chunks <= most) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrFormat(
      "%s \"%s\": there are too many chunks for what the data files hold (need "
      "at most %d, found %d)",
      AbslView(operation), directory, most, chunks));
}

}  // namespace belay
