#include "io/index/index_file.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <tuple>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "bytes/checksum.h"
#include "bytes/fingerprint.h"
#include "bytes/wire.h"
#include "format/index_columns.h"
#include "format/paths.h"
#include "hdf5/dataset.h"
#include "hdf5/file.h"
#include "hdf5/table.h"
#include "io/files/posix_file.h"

namespace belay {
namespace {

// The datasets of one array: [begin, end) of the sorted list.
using Datasets = std::span<const StoredDataset>;

// Shows an array under its key: a link to its dataset, or its pieces put
// together.
Status PresentArray(const h5::Handle& file, h5::ObjectCache& groups,
                    const std::string& path, const SavedCheckpoint& saved,
                    const StoredArray& array, Datasets datasets) {
  if (datasets.empty()) {
    return h5::CreateDataset(file, groups,
                             {.path = path,
                              .dtype = array.dtype,
                              .string_bytes = array.string_bytes,
                              .shape = array.shape,
                              .chunk = {},
                              .fields = array.fields})
        .status();
  }
  if (datasets[0].box == WholeBox(IoShape(array))) {
    return h5::CreateExternalLink(file, groups, path,
                                  saved.files[datasets[0].file].name, path);
  }
  std::vector<h5::VirtualPiece> pieces;
  for (const StoredDataset& dataset : datasets) {
    pieces.push_back({saved.files[dataset.file].name,
                      DatasetPath(path, array, dataset), dataset.box});
  }
  return h5::CreateVirtualDataset(
      file, groups, path, {array.dtype, array.string_bytes, array.fields},
      array.shape, pieces);
}

Status PresentArrays(const h5::Handle& file, const SavedCheckpoint& saved) {
  h5::ObjectCache groups;
  const std::vector<std::string> paths = ObjectPaths(saved.arrays);
  size_t begin = 0;
  for (size_t i = 0; i < saved.arrays.size(); ++i) {
    size_t end = begin;
    while (end < saved.datasets.size() &&
           saved.datasets[end].array == static_cast<int32_t>(i)) {
      ++end;
    }
    BELAY_RETURN_IF_ERROR(
        PresentArray(file, groups, paths[i], saved, saved.arrays[i],
                     Datasets(saved.datasets).subspan(begin, end - begin)));
    begin = end;
  }
  return absl::OkStatus();
}

// Writes all columns; remembers the places of those that change.
Status WriteColumns(const h5::Handle& file, const IndexColumns& columns,
                    IndexImage& image) {
  h5::ObjectCache groups;
  Status status;
  const auto write = [&](const char* path, const auto& column) {
    using Row = typename std::decay_t<decltype(column)>::value_type;
    if (!status.ok()) return;
    if constexpr (std::is_same_v<Row, std::string>) {
      status = h5::WriteTextColumn(file, groups, path, column);
    } else {
      const StatusOr<int64_t> offset = h5::WriteColumn<Row>(
          file, groups, path, std::span<const Row>(column));
      status = offset.status();
      if (!status.ok()) return;
      if (path == std::string_view(kStepColumn)) image.step_offset = *offset;
      if (path == std::string_view(kChecksumColumn)) {
        image.checksum_offset = *offset;
      }
    }
  };
  ForEachColumn(0, columns, write);
  for (uint32_t minor = 1; minor <= kFormatMinor; ++minor) {
    if (!HaveColumns(minor, columns)) continue;
    ForEachColumn(minor, columns, write);
    write(AddedDigestColumn(minor).c_str(),
          std::vector<uint32_t>{DigestOfAdded(minor, columns)});
  }
  BELAY_RETURN_IF_ERROR(status);
  const IndexDigest digest = DigestOf(columns);
  const std::vector<uint32_t> rows = {digest.structure, digest.values};
  BELAY_ASSIGN_OR_RETURN(
      image.digest_offset,
      h5::WriteColumn<uint32_t>(file, groups, kDigestColumn, rows));
  return absl::OkStatus();
}

h5::FileLayoutHint HintFor(const SavedCheckpoint& saved) {
  int64_t bytes = 16384;
  for (const StoredArray& array : saved.arrays) {
    bytes += 128 + 2 * static_cast<int64_t>(array.key.size());
  }
  return {.metadata_bytes = bytes, .small_data_bytes = 65536};
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
  BELAY_ASSIGN_OR_RETURN(h5::Handle file,
                         h5::CreateFile(path, HintFor(sorted)));
  BELAY_RETURN_IF_ERROR(PresentArrays(file, sorted));
  IndexImage image;
  BELAY_RETURN_IF_ERROR(WriteColumns(file, ToColumns(sorted), image));
  BELAY_RETURN_IF_ERROR(file.Close());
  BELAY_ASSIGN_OR_RETURN(PosixFile written,
                         PosixFile::Open(path, PosixFile::Mode::kRead));
  BELAY_ASSIGN_OR_RETURN(const FileStat stat, written.Stat());
  image.bytes.resize(stat.size);
  BELAY_RETURN_IF_ERROR(written.PreadAll(0, image.bytes.data(), stat.size));
  return image;
}

Status CreateIndexFromImage(const std::string& path, const IndexImage& image) {
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
  // The second of two digests; see WriteColumns.
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

}  // namespace belay
