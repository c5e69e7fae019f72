// Reads index.h5: header, columns, digests.
#include <algorithm>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "format/index_columns.h"
#include "format/paths.h"
#include "hdf5/file.h"
#include "hdf5/table.h"
#include "io/index/index_file.h"

namespace belay {
namespace {

// Far above anything real; keeps a damaged length from exhausting memory.
constexpr int64_t kMaxRows = int64_t{1} << 31;

template <typename T>
Status ReadInto(const h5::Handle& file, const char* path,
                std::vector<T>& column) {
  if constexpr (std::is_same_v<T, std::string>) {
    BELAY_ASSIGN_OR_RETURN(column, h5::ReadTextColumn(file, path, kMaxRows));
  } else {
    BELAY_ASSIGN_OR_RETURN(column, h5::ReadColumn<T>(file, path, kMaxRows));
  }
  return absl::OkStatus();
}

// A dataset alone does not say in which of many files it is.
Status InFile(const std::string& path, const Status& status) {
  if (status.ok()) return status;
  return Status(status.code(),
                absl::StrFormat("read \"%s\": %s", path, status.message()));
}

// Magic and version come first: the rest is only understood with them.
Status CheckHeader(const h5::Handle& file, const std::string& path) {
  IndexColumns header;
  const Status magic = ReadInto(file, ".belay/header/magic", header.magic);
  // A failure of the system is no verdict on the file.
  if (!magic.ok() && !absl::IsNotFound(magic) && !absl::IsDataLoss(magic)) {
    return InFile(path, magic);
  }
  if (!magic.ok() || header.magic != std::vector<std::string>{kIndexMagic}) {
    return absl::DataLossError(absl::StrFormat(
        "read \"%s\": not the index of a belay checkpoint (need magic \"%s\", "
        "found %s)",
        path, kIndexMagic,
        header.magic.size() == 1 ? "\"" + header.magic[0] + "\"" : "none"));
  }
  BELAY_RETURN_IF_ERROR(
      InFile(path, ReadInto(file, ".belay/header/format", header.format)));
  if (header.format.size() != 2 || header.format[0] == 0) {
    return absl::DataLossError(
        absl::StrFormat("read \"%s\": the format version is damaged", path));
  }
  if (header.format[0] > kFormatMajor) {
    return absl::UnimplementedError(absl::StrFormat(
        "read \"%s\": written in format %d.%d, a newer one than this belay "
        "understands; use a newer belay (need format %d, found %d)",
        path, header.format[0], header.format[1], kFormatMajor,
        header.format[0]));
  }
  return absl::OkStatus();
}

// Reads the columns that `minor` has added, if there are any, and compares
// their digest.
Status ReadAddedColumns(const h5::Handle& file, uint32_t minor,
                        IndexColumns& columns, bool& is_intact) {
  const std::string path = AddedDigestColumn(minor);
  if (!HaveColumns(minor, columns)) {  // they may be left out
    BELAY_ASSIGN_OR_RETURN(const bool exists, h5::Exists(file, path));
    if (!exists) {
      // A version that adds rows or structs is only written with them.
      is_intact = minor <= kFormatMinorWithoutRows || minor < columns.format[1];
      return absl::OkStatus();
    }
  }
  Status status;
  ForEachColumn(minor, columns, [&](const char* name, auto& column) {
    if (status.ok()) status = ReadInto(file, name, column);
  });
  BELAY_RETURN_IF_ERROR(status);
  std::vector<uint32_t> found;
  BELAY_RETURN_IF_ERROR(ReadInto(file, path.c_str(), found));
  is_intact = found == std::vector<uint32_t>{DigestOfAdded(minor, columns)};
  return absl::OkStatus();
}

// Reads all columns that a file of its version has, and compares the digests.
Status ReadColumns(const h5::Handle& file, IndexColumns& columns,
                   bool& is_intact) {
  Status status;
  ForEachColumn(0, columns, [&](const char* name, auto& column) {
    if (status.ok()) status = ReadInto(file, name, column);
  });
  BELAY_RETURN_IF_ERROR(status);
  const IndexDigest digest = DigestOf(columns);
  std::vector<uint32_t> found;
  BELAY_RETURN_IF_ERROR(ReadInto(file, kDigestColumn, found));
  is_intact = found == std::vector<uint32_t>{digest.structure, digest.values};
  // The version is only known to be right now.
  const uint32_t newest =
      is_intact ? std::min(columns.format[1], kFormatMinor) : 0;
  for (uint32_t minor = 1; minor <= newest && is_intact; ++minor) {
    BELAY_RETURN_IF_ERROR(ReadAddedColumns(file, minor, columns, is_intact));
  }
  return absl::OkStatus();
}

// Where those datasets are that are opened by their path.
void FindFilteredPaths(SavedCheckpoint& saved) {
  std::vector<std::string> paths;
  for (StoredDataset& dataset : saved.datasets) {
    if (dataset.filters.empty()) continue;
    if (paths.empty()) paths = ObjectPaths(saved.arrays);
    dataset.path =
        DatasetPath(paths[dataset.array], saved.arrays[dataset.array], dataset);
  }
}

}  // namespace

StatusOr<SavedCheckpoint> ReadIndex(const std::string& directory) {
  const std::string path = JoinPath(directory, IndexName());
  BELAY_ASSIGN_OR_RETURN(h5::Handle file, h5::OpenFileUnlocked(path));
  BELAY_RETURN_IF_ERROR(CheckHeader(file, path));
  IndexColumns columns;
  bool is_intact = false;
  BELAY_RETURN_IF_ERROR(InFile(path, ReadColumns(file, columns, is_intact)));
  BELAY_RETURN_IF_ERROR(file.Close());
  if (!is_intact) {
    return absl::DataLossError(absl::StrFormat(
        "read \"%s\": the index is damaged: its digest does not match", path));
  }
  BELAY_ASSIGN_OR_RETURN(SavedCheckpoint saved, FromColumns(columns, path));
  FindFilteredPaths(saved);
  return saved;
}

}  // namespace belay
