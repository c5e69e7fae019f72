// Reads index.h5: header, columns, digests.
#include <algorithm>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/catch_bad_alloc.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "format/index_columns.h"
#include "format/paths.h"
#include "hdf5_format/encoded_type.h"
#include "hdf5_format/read/file_reader.h"
#include "hdf5_format/read/metadata_reader.h"
#include "io/index/copied_texts.h"
#include "io/index/hdf5_bytes.h"
#include "io/index/index_file.h"
#include "io/steps/missing_step.h"

namespace belay {
namespace {

// An index that is open: its columns are read without libhdf5, which trusts
// what it reads.
struct OpenIndex {
  std::string path;
  std::unique_ptr<Hdf5Bytes> file;
  std::optional<h5::FileReader> reader;

  h5::BoundedFile& bytes() { return file->bytes(); }
};

Status OfColumn(const OpenIndex& index, absl::StatusCode code,
                std::string_view column, std::string_view problem) {
  return Status(code,
                absl::StrFormat("read \"%s\": read \"%s\": %s", index.path,
                                AbslView(column), AbslView(problem)));
}

// Finds a column whose rows have this type; of texts, of any length.
StatusOr<h5::ContiguousDataset> FindColumn(OpenIndex& index,
                                           std::string_view path,
                                           h5::ElementType type) {
  constexpr size_t kSizeAt = 4;  // in a datatype message
  BELAY_ASSIGN_OR_RETURN(std::optional<h5::ContiguousDataset> found,
                         index.reader->Find(path));
  if (!found) {
    return OfColumn(index, absl::StatusCode::kNotFound, path, "no such column");
  }
  if (type.dtype == DType::kString) {
    type.string_bytes = static_cast<int64_t>(
        h5::MetadataReader(std::string_view(found->type).substr(kSizeAt))
            .Number(4));
  }
  BELAY_ASSIGN_OR_RETURN(const std::string need, h5::EncodedType(type));
  if (found->type != need) {
    return OfColumn(index, absl::StatusCode::kDataLoss, path,
                    absl::StrFormat("the stored type is not %s",
                                    AbslView(DTypeName(type.dtype))));
  }
  if (found->shape.size() != 1) {
    return OfColumn(index, absl::StatusCode::kDataLoss, path,
                    absl::StrFormat("not one axis (need 1, found %d)",
                                    found->shape.size()));
  }
  return *std::move(found);
}

// Texts without the NULs that fill them up.
Status ReadTexts(OpenIndex& index, const h5::ContiguousDataset& column,
                 const char* path, std::vector<std::string>& texts) {
  constexpr int64_t kPartBytes = int64_t{4} << 20;
  const int64_t rows = column.shape[0];
  if (rows == 0) return absl::OkStatus();
  const int64_t width = column.bytes / rows;
  if (width == 0) {
    return OfColumn(index, absl::StatusCode::kDataLoss, path,
                    "its texts have no length");
  }
  BELAY_RETURN_IF_ERROR(index.bytes().Charge(column.bytes, path));
  BELAY_RETURN_IF_ERROR(index.bytes().Charge(sizeof(std::string), path, rows));
  texts.reserve(static_cast<size_t>(rows));
  const int64_t rows_of_part = std::max<int64_t>(1, kPartBytes / width);
  std::string part;
  for (int64_t row = 0; row < rows; row += rows_of_part) {
    part.resize(
        static_cast<size_t>(std::min(rows_of_part, rows - row) * width));
    BELAY_RETURN_IF_ERROR(index.bytes().ReadTo(
        column.offset + row * width, part.data(), std::ssize(part), path));
    for (size_t at = 0; at < part.size(); at += width) {
      const std::string_view text(part.data() + at, width);
      const size_t end = text.find_last_not_of('\0');
      texts.emplace_back(text.substr(0, end == text.npos ? 0 : end + 1));
    }
  }
  return absl::OkStatus();
}

template <typename T>
Status ReadInto(OpenIndex& index, const char* path, std::vector<T>& column) {
  constexpr bool kIsText = std::is_same_v<T, std::string>;
  h5::ElementType type{DType::kString};
  if constexpr (!kIsText) type.dtype = DTypeOf<T>();
  column.clear();
  BELAY_ASSIGN_OR_RETURN(const h5::ContiguousDataset found,
                         FindColumn(index, path, type));
  if constexpr (kIsText) {
    return ReadTexts(index, found, path, column);
  } else {
    BELAY_RETURN_IF_ERROR(index.bytes().Charge(found.bytes, path));
    column.resize(static_cast<size_t>(found.shape[0]));
    return index.bytes().ReadTo(found.offset < 0 ? 0 : found.offset,
                                column.data(), found.bytes, path);
  }
}

// What cannot be read is damaged, and says so once. A failure of the system is
// no verdict on the file.
Status AsDamage(const OpenIndex& index, const Status& status) {
  if (!absl::IsDataLoss(status) && !absl::IsUnimplemented(status) &&
      !absl::IsResourceExhausted(status)) {
    return status;
  }
  const std::string start = Cat("read \"", index.path, "\": ");
  std::string_view cause(status.message().data(), status.message().size());
  if (cause.starts_with(start)) cause.remove_prefix(start.size());
  return absl::DataLossError(Cat(start, "the index is damaged: ", cause));
}

// Magic and version come first: the rest is only understood with them.
Status CheckHeader(OpenIndex& index) {
  const std::string& path = index.path;
  IndexColumns header;
  StatusOr<h5::FileReader> reader = h5::FileReader::Open(index.bytes());
  Status magic = reader.status();
  if (magic.ok()) {
    index.reader = *std::move(reader);
    magic = ReadInto(index, ".belay/header/magic", header.magic);
  }
  if (!magic.ok() && !absl::IsNotFound(magic)) return AsDamage(index, magic);
  if (!magic.ok() || header.magic != std::vector<std::string>{kIndexMagic}) {
    const std::string found =
        header.magic.size() == 1 ? "\"" + header.magic[0] + "\"" : "none";
    return absl::DataLossError(absl::StrFormat(
        "read \"%s\": not the index of a belay checkpoint (need magic \"%s\", "
        "found %s)",
        path, kIndexMagic, found));
  }
  BELAY_RETURN_IF_ERROR(ReadInto(index, ".belay/header/format", header.format));
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
Status ReadAddedColumns(OpenIndex& index, uint32_t minor, IndexColumns& columns,
                        bool& is_intact) {
  const std::string path = AddedDigestColumn(minor);
  if (!HaveColumns(minor, columns)) {  // they may be left out
    BELAY_ASSIGN_OR_RETURN(const auto found, index.reader->Find(path));
    if (!found) {
      // A version that adds rows or structs is only written with them.
      is_intact = minor <= kFormatMinorWithoutRows || minor < columns.format[1];
      return absl::OkStatus();
    }
  }
  Status status;
  ForEachColumn(minor, columns, [&](const char* name, auto& column) {
    if (status.ok()) status = ReadInto(index, name, column);
  });
  BELAY_RETURN_IF_ERROR(status);
  std::vector<uint32_t> found;
  BELAY_RETURN_IF_ERROR(ReadInto(index, path.c_str(), found));
  is_intact = found == std::vector<uint32_t>{DigestOfAdded(minor, columns)};
  return absl::OkStatus();
}

// Reads all columns that a file of its version has, and compares the digests.
Status ReadColumns(OpenIndex& index, IndexColumns& columns, bool& is_intact) {
  Status status;
  ForEachColumn(0, columns, [&](const char* name, auto& column) {
    if (status.ok()) status = ReadInto(index, name, column);
  });
  BELAY_RETURN_IF_ERROR(status);
  const IndexDigest digest = DigestOf(columns);
  std::vector<uint32_t> found;
  BELAY_RETURN_IF_ERROR(ReadInto(index, kDigestColumn, found));
  is_intact = found == std::vector<uint32_t>{digest.structure, digest.values};
  // The version is only known to be right now.
  const uint32_t newest =
      is_intact ? std::min(columns.format[1], kFormatMinor) : 0;
  for (uint32_t minor = 1; minor <= newest && is_intact; ++minor) {
    BELAY_RETURN_IF_ERROR(ReadAddedColumns(index, minor, columns, is_intact));
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

// Reads and checks the index `path`.
StatusOr<SavedCheckpoint> ReadFile(const std::string& path) {
  OpenIndex index{.path = path};
  BELAY_ASSIGN_OR_RETURN(index.file, Hdf5Bytes::Open(path));
  BELAY_RETURN_IF_ERROR(CheckHeader(index));
  IndexColumns columns;
  bool is_intact = false;
  BELAY_RETURN_IF_ERROR(ReadColumns(index, columns, is_intact));
  BELAY_RETURN_IF_ERROR(index.file->Close());
  if (!is_intact) {
    return absl::DataLossError(absl::StrFormat(
        "read \"%s\": the index is damaged: its digest does not match", path));
  }
  BELAY_ASSIGN_OR_RETURN(SavedCheckpoint saved,
                         FromColumns(std::move(columns), path));
  BELAY_RETURN_IF_ERROR(ChargeCopiedTexts(saved, index.bytes()));
  FindFilteredPaths(saved);
  return saved;
}

}  // namespace

StatusOr<SavedCheckpoint> ReadIndex(const std::string& directory) {
  const std::string path = JoinPath(directory, IndexName());
  StatusOr<SavedCheckpoint> saved = CatchBadAlloc(
      Cat("the index \"", path, "\""), [&] { return ReadFile(path); });
  if (!saved.ok()) return WithEarlierStep(saved.status(), directory);
  return saved;
}

}  // namespace belay
