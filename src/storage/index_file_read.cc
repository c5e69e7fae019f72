// Reads index.h5: header, columns, digest.
#include <algorithm>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/str_format.h"
#include "core/catch_exceptions.h"
#include "core/flat_buffer.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "format/bounded_file.h"
#include "format/element_type.h"
#include "format/file_reader.h"
#include "format/index_columns.h"
#include "format/paths.h"
#include "format/stored_columns.h"
#include "storage/belay_files.h"
#include "storage/directory.h"
#include "storage/index_file.h"
#include "storage/index_image.h"

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

// Finds a column whose rows have this type; of texts, of any length. None: the
// file leaves it out.
StatusOr<std::optional<h5::ContiguousDataset>> FindColumn(
    OpenIndex& index, std::string_view path, h5::ElementType type) {
  constexpr size_t kSizeAt = 4;  // in a datatype message
  BELAY_ASSIGN_OR_RETURN(std::optional<h5::ContiguousDataset> found,
                         index.reader->Find(path));
  if (!found) return found;
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
  return found;
}

// Reads the rows of a column of Ts. Makes sure that there is memory for what is
// made of texts, too.
template <typename T>
StatusOr<StoredColumn> ReadColumn(OpenIndex& index, const std::string& path) {
  constexpr bool kIsText = std::is_same_v<T, std::string>;
  h5::ElementType type{DType::kString};
  if constexpr (!kIsText) type.dtype = DTypeOf<T>();
  BELAY_ASSIGN_OR_RETURN(const std::optional<h5::ContiguousDataset> found,
                         FindColumn(index, path, type));
  StoredColumn column{.path = path, .dtype = type.dtype};
  if (!found || found->shape[0] == 0) return column;
  column.rows = found->shape[0];
  column.width = found->bytes / column.rows;
  if (column.width == 0) {
    return OfColumn(index, absl::StatusCode::kDataLoss, path,
                    "its texts have no length");
  }
  BELAY_RETURN_IF_ERROR(index.bytes().Charge(found->bytes, path));
  if (kIsText) {
    BELAY_RETURN_IF_ERROR(
        index.bytes().Charge(sizeof(std::string), path, column.rows));
  }
  column.bytes = NewBytes(found->bytes);
  BELAY_RETURN_IF_ERROR(index.bytes().ReadTo(found->offset, column.bytes.get(),
                                             found->bytes, path));
  return column;
}

// The same of one that has few rows.
template <typename T>
StatusOr<std::vector<T>> ReadRows(OpenIndex& index, const std::string& path) {
  BELAY_ASSIGN_OR_RETURN(const StoredColumn column, ReadColumn<T>(index, path));
  return RowsOf<T>(column);
}

// Reads all columns, and compares their digest.
StatusOr<bool> ReadColumns(OpenIndex& index, StoredColumns& columns) {
  const IndexColumns none;  // which types they have
  Status status;
  ForEachColumn(none, [&](const char* path, const auto& rows) {
    using T = typename std::decay_t<decltype(rows)>::value_type;
    if (!status.ok()) return;
    StatusOr<StoredColumn> column = ReadColumn<T>(index, path);
    status = column.status();
    if (status.ok()) columns.push_back(*std::move(column));
  });
  BELAY_RETURN_IF_ERROR(status);
  BELAY_ASSIGN_OR_RETURN(const std::vector<uint32_t> found,
                         ReadRows<uint32_t>(index, kDigestColumn));
  const IndexDigest need = DigestOf(columns);
  return found == std::vector<uint32_t>{need.structure, need.values};
}

// What cannot be read is damaged, and says so once. A failure of the system is
// no verdict on the file.
Status AsDamage(const OpenIndex& index, const Status& status) {
  // A limit that somebody has set says nothing about the file.
  const bool is_too_large =
      absl::IsResourceExhausted(status) &&
      !MaxMetadataBytes().value_or(std::nullopt).has_value();
  if (!absl::IsDataLoss(status) && !absl::IsUnimplemented(status) &&
      !is_too_large) {
    return status;
  }
  const std::string start = Cat("read \"", index.path, "\": ");
  std::string_view cause(status.message().data(), status.message().size());
  if (cause.starts_with(start)) cause.remove_prefix(start.size());
  return absl::DataLossError(Cat(start, "the index is damaged: ", cause));
}

// What says whose file it is; the reader is there after it.
StatusOr<std::vector<std::string>> ReadMagic(OpenIndex& index) {
  BELAY_ASSIGN_OR_RETURN(index.reader, h5::FileReader::Open(index.bytes()));
  return ReadRows<std::string>(index, ".belay/header/magic");
}

// Magic and version come first: the rest is only understood with them.
Status CheckHeader(OpenIndex& index) {
  const std::string& path = index.path;
  const StatusOr<std::vector<std::string>> magic = ReadMagic(index);
  if (!magic.ok()) return AsDamage(index, magic.status());
  if (*magic != std::vector<std::string>{kIndexMagic}) {
    const std::string found =
        magic->size() == 1 ? "\"" + (*magic)[0] + "\"" : "none";
    return absl::DataLossError(absl::StrFormat(
        "read \"%s\": not the index of a belay checkpoint (need magic \"%s\", "
        "found %s)",
        path, kIndexMagic, found));
  }
  BELAY_ASSIGN_OR_RETURN(const std::vector<uint32_t> format,
                         ReadRows<uint32_t>(index, ".belay/header/format"));
  if (format.size() != 2 || format[0] == 0) {
    return absl::DataLossError(
        absl::StrFormat("read \"%s\": the format version is damaged", path));
  }
  if (format[0] > kFormatMajor) {
    return absl::UnimplementedError(absl::StrFormat(
        "read \"%s\": written in format %d.%d, a newer one than this belay "
        "understands; use a newer belay (need format %d, found %d)",
        path, format[0], format[1], kFormatMajor, format[0]));
  }
  return absl::OkStatus();
}

// Charges what is made of the rows of tables, for who lists all that there is.
Status ChargeRows(const StoredColumns& stored, h5::BoundedFile& index) {
  constexpr int64_t kBytesOfArray = 512, kBytesOfDataset = 448;
  constexpr int64_t kBytesOfObject = 256;  // also of values, and what they hold
  const auto charge = [&](const char* path, int64_t bytes) {
    return index.Charge(bytes, path, ColumnOf(stored, path).rows);
  };
  BELAY_RETURN_IF_ERROR(charge(".belay/arrays/key", kBytesOfArray));
  BELAY_RETURN_IF_ERROR(charge(".belay/datasets/array", kBytesOfDataset));
  for (const char* path :
       {".belay/graph/nodes/parent", ".belay/graph/children/node",
        ".belay/graph/attributes/node", ".belay/values/key",
        ".belay/values/parts/value"}) {
    BELAY_RETURN_IF_ERROR(charge(path, kBytesOfObject));
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

// Reads and checks the index `path`; only what it says of the arrays `keys`, if
// there are some.
StatusOr<SavedCheckpoint> ReadFile(const std::string& path,
                                   const std::vector<std::string>& keys) {
  OpenIndex index{.path = path};
  BELAY_ASSIGN_OR_RETURN(index.file, Hdf5Bytes::Open(path));
  BELAY_RETURN_IF_ERROR(CheckHeader(index));
  StoredColumns stored;
  const StatusOr<bool> is_intact = ReadColumns(index, stored);
  if (!is_intact.ok()) return AsDamage(index, is_intact.status());
  BELAY_RETURN_IF_ERROR(index.file->Close());
  if (!*is_intact) {
    return absl::DataLossError(absl::StrFormat(
        "read \"%s\": the index is damaged: its digest does not match", path));
  }
  std::optional<IndexColumns> columns;
  if (!keys.empty()) columns = SelectArrays(stored, keys);
  if (!columns) {
    BELAY_RETURN_IF_ERROR(ChargeRows(stored, index.bytes()));
    columns = ToIndexColumns(std::move(stored));
  }
  BELAY_ASSIGN_OR_RETURN(SavedCheckpoint saved,
                         FromColumns(*std::move(columns), path));
  BELAY_RETURN_IF_ERROR(ChargeCopiedTexts(saved, index.bytes()));
  FindFilteredPaths(saved);
  return saved;
}

}  // namespace

StatusOr<SavedCheckpoint> ReadIndex(const std::string& directory,
                                    const std::vector<std::string>& keys) {
  const std::string path = JoinPath(directory, IndexName());
  StatusOr<SavedCheckpoint> saved = LookWhileReplaced(directory, [&] {
    return CatchBadAlloc(Cat("the index \"", path, "\""),
                         [&] { return ReadFile(path, keys); });
  });
  if (!saved.ok()) return WithEarlierStep(saved.status(), directory);
  return saved;
}

}  // namespace belay
