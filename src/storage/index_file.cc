#include "storage/index_file.h"

#include <cstdlib>
#include <limits>
#include <numeric>
#include <tuple>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "core/catch_exceptions.h"
#include "core/text.h"
#include "core/wire.h"
#include "format/element_type.h"
#include "format/file_metadata.h"
#include "format/file_reader.h"
#include "format/paths.h"
#include "storage/commit.h"
#include "storage/posix_file.h"

namespace belay {
namespace {

// The metadata may need this much more memory than space in its file: short
// texts do.
constexpr int64_t kMemoryPerByte = 40;
// A file system may compress what it stores; a hole takes no space at all.
constexpr int64_t kMaxCompressed = 8;
constexpr int64_t kLeastBudget = int64_t{16} << 20;

// Returns the length that an open file would have without its holes; more if
// the file system may have compressed it.
int64_t BytesWithoutHoles(const PosixFile& file, const FileStat& stat) {
  if (stat.allocated_bytes >= stat.size / kMaxCompressed) return stat.size;
  // Some file systems report the space of written data only later, or never.
  // Some of these do not report holes either.
  constexpr int64_t kMaxUncounted = int64_t{1} << 30;
  const int64_t data = std::min(file.DataBytes(), kMaxUncounted);
  return std::clamp(stat.allocated_bytes * kMaxCompressed,
                    std::min(data, stat.size), stat.size);
}

}  // namespace

// A damaged length must not exhaust memory.
int64_t MetadataBudget(int64_t stored_bytes) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  if (stored_bytes > (kMax - kLeastBudget) / kMemoryPerByte) return kMax;
  return stored_bytes * kMemoryPerByte + kLeastBudget;
}

StatusOr<std::optional<int64_t>> MaxMetadataBytes() {
  const char* const text = std::getenv(kMaxMetadataBytes);
  if (text == nullptr || *text == '\0') return std::nullopt;
  int64_t bytes = 0;
  if (absl::SimpleAtoi(text, &bytes) && bytes > 0) return bytes;
  return absl::InvalidArgumentError(Cat(kMaxMetadataBytes,
                                        ": not a number of bytes (need at ",
                                        "least 1, found \"", text, "\")"));
}

Hdf5Bytes::Hdf5Bytes(PosixFile file, const FileStat& stat, int64_t budget)
    : file_(std::move(file)),
      bytes_(
          file_.path(), stat.size, budget,
          [this](int64_t offset, void* data, int64_t bytes) {
            return file_.PreadAll(offset, data, bytes);
          },
          Cat("; if you trust it, allow more with ", kMaxMetadataBytes)) {}

namespace {

// Opens a file of a committed step for reading.
StatusOr<PosixFile> OpenFileOfStep(const std::string& path) {
  StatusOr<PosixFile> file = PosixFile::Open(path, PosixFile::Mode::kRead);
  if (!absl::IsInvalidArgument(file.status())) return file;
  // It was replaced by a link, or by something that is not a file.
  return absl::DataLossError(file.status().message());
}

}  // namespace

StatusOr<std::unique_ptr<Hdf5Bytes>> Hdf5Bytes::Open(const std::string& path) {
  BELAY_ASSIGN_OR_RETURN(PosixFile file, OpenFileOfStep(path));
  BELAY_ASSIGN_OR_RETURN(const FileStat stat, file.Stat());
  BELAY_ASSIGN_OR_RETURN(const std::optional<int64_t> said, MaxMetadataBytes());
  const int64_t budget =
      said ? *said : MetadataBudget(BytesWithoutHoles(file, stat));
  return std::unique_ptr<Hdf5Bytes>(
      new Hdf5Bytes(std::move(file), stat, budget));
}

// --- Index file ---

Status FinishIndex(const std::string& path, const IndexImage& image,
                   int64_t step, int64_t time,
                   const std::vector<uint32_t>& checksums, bool durable,
                   const std::function<Status()>& once_open) {
  BELAY_ASSIGN_OR_RETURN(PosixFile file,
                         PosixFile::Open(path, PosixFile::Mode::kWrite));
  if (once_open) BELAY_RETURN_IF_ERROR(once_open());
  BELAY_RETURN_IF_ERROR(file.PwriteAll(image.step_offset, &step, sizeof(step)));
  BELAY_RETURN_IF_ERROR(file.PwriteAll(image.time_offset, &time, sizeof(time)));
  if (image.checksum_offset >= 0) {
    BELAY_RETURN_IF_ERROR(file.PwriteAll(
        image.checksum_offset, checksums.data(),
        static_cast<int64_t>(checksums.size() * sizeof(uint32_t))));
  }
  // The second part of the digest covers these values.
  const uint32_t digest = ComputeValueDigest(step, time, checksums);
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

// `found` is the identity of the current file; `what` names its kind.
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

namespace {

// Detects files with several names, whose bytes are stored only once. Files
// without values may have several names: tools that link equal files create
// them.
class LinkedFiles {
 public:
  explicit LinkedFiles(const SavedCheckpoint& saved)
      : saved_(saved), has_values_(saved.files.size()) {
    for (const StoredDataset& dataset : saved.datasets) {
      if (!IsEmpty(dataset.box)) has_values_[dataset.file] = true;
    }
  }

  // Checks an existing file.
  Status Add(size_t file, const std::string& path, const FileStat& stat) {
    if (stat.links <= 1 || !has_values_[file]) return absl::OkStatus();
    const auto [known, is_new] = by_number_.try_emplace(stat.number, file);
    if (is_new) return absl::OkStatus();
    return absl::DataLossError(
        absl::StrFormat("open \"%s\": the data file is \"%s\" by another name, "
                        "whose bytes are stored once",
                        path, saved_.files[known->second].name));
  }

 private:
  const SavedCheckpoint& saved_;
  std::vector<bool> has_values_;
  absl::flat_hash_map<uint64_t, size_t> by_number_;
};

// Returns the minimum size of the filtered chunks of each file. Requires files
// that can hold them.
std::vector<int64_t> LeastChunkBytes(const SavedCheckpoint& saved) {
  std::vector<int64_t> bytes(saved.files.size());
  for (const StoredDataset& dataset : saved.datasets) {
    if (dataset.filters.empty()) continue;
    bytes[dataset.file] += kLeastChunkBytes * NumElements(ChunkGrid(dataset));
  }
  return bytes;
}

}  // namespace

Status CheckDataFiles(const std::string& directory,
                      const SavedCheckpoint& saved) {
  LinkedFiles linked(saved);
  const std::vector<int64_t> of_chunks = LeastChunkBytes(saved);
  for (size_t i = 0; i < saved.files.size(); ++i) {
    const StoredFile& expected = saved.files[i];
    const std::string path = JoinPath(directory, expected.name);
    StatusOr<PosixFile> file = OpenFileOfStep(path);
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
    BELAY_RETURN_IF_ERROR(linked.Add(i, path, stat));
    const int64_t without_holes = BytesWithoutHoles(*file, stat);
    if (of_chunks[i] > without_holes) {
      return absl::DataLossError(
          absl::StrFormat("open \"%s\": the data file has holes where its "
                          "chunks would be (need "
                          "%d bytes, found %d)",
                          path, of_chunks[i], without_holes));
    }
  }
  return absl::OkStatus();
}

Status CheckChunksFit(std::string_view operation, const std::string& directory,
                      const SavedCheckpoint& saved) {
  // Per chunk: in a plan, and in a file.
  constexpr int64_t kBytesPlanned = 256, kLeastBytesStored = 64;
  constexpr int64_t kFewChunks = int64_t{1} << 18;
  int64_t chunks = 0;
  for (const StoredDataset& dataset : saved.datasets) {
    if (dataset.chunk.empty()) continue;
    chunks += NumElements(ChunkGrid(dataset));
  }
  if (chunks <= kFewChunks) return absl::OkStatus();
  BELAY_ASSIGN_OR_RETURN(const std::optional<int64_t> allowed,
                         MaxMetadataBytes());
  int64_t most = kFewChunks;
  for (const StoredFile& expected : saved.files) {
    const StatusOr<PosixFile> file = PosixFile::Open(
        JoinPath(directory, expected.name), PosixFile::Mode::kRead);
    if (absl::IsNotFound(file.status())) continue;
    BELAY_RETURN_IF_ERROR(file.status());
    BELAY_ASSIGN_OR_RETURN(const FileStat stat, file->Stat());
    most += BytesWithoutHoles(*file, stat) / kLeastBytesStored;
  }
  if (allowed) most = *allowed / kBytesPlanned;
  if (chunks <= most) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrFormat(
      "%s \"%s\": there are too many chunks for what the data files there "
      "hold; "
      "if you trust the index, set %s to %d or more (need at most %d chunks, "
      "found %d)",
      AbslView(operation), directory, kMaxMetadataBytes,
      std::min(chunks, INT64_MAX / kBytesPlanned) * kBytesPlanned, most,
      chunks));
}

// --- Reading ---

namespace {

// An open index. Its columns are read without libhdf5, which trusts its input.
struct OpenIndex {
  std::string path;
  std::unique_ptr<Hdf5Bytes> file;
  std::optional<h5::FileReader> reader;

  h5::BoundedFile& bytes() { return file->bytes(); }
};

Status ColumnError(const OpenIndex& index, absl::StatusCode code,
                   std::string_view column, std::string_view problem) {
  return Status(code,
                absl::StrFormat("read \"%s\": read \"%s\": %s", index.path,
                                AbslView(column), AbslView(problem)));
}

// Finds a column whose rows have this type; texts may have any length. Returns
// nothing if the file has no such column.
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
    return ColumnError(index, absl::StatusCode::kDataLoss, path,
                       absl::StrFormat("the stored type is not %s",
                                       AbslView(DTypeName(type.dtype))));
  }
  if (found->shape.size() != 1) {
    return ColumnError(index, absl::StatusCode::kDataLoss, path,
                       absl::StrFormat("not one axis (need 1, found %d)",
                                       found->shape.size()));
  }
  return found;
}

// Reads the rows of a column of Ts. Also charges the memory for the objects
// made from texts.
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
    return ColumnError(index, absl::StatusCode::kDataLoss, path,
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

// Reads a column with few rows.
template <typename T>
StatusOr<std::vector<T>> ReadRows(OpenIndex& index, const std::string& path) {
  BELAY_ASSIGN_OR_RETURN(const StoredColumn column, ReadColumn<T>(index, path));
  return GetRows<T>(column);
}

// Reads all columns, and returns true if their digest matches.
StatusOr<bool> ReadColumns(OpenIndex& index, StoredColumns& columns) {
  const IndexColumns none;  // for the types of the columns
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
  const IndexDigest need = ComputeDigest(columns);
  return found == std::vector<uint32_t>{need.structure, need.values};
}

// Turns read errors into DataLoss "the index is damaged", without repeating the
// file name. Failures of the system stay unchanged.
Status AsDamage(const OpenIndex& index, const Status& status) {
  // Exceeding a limit set by the user does not mean that the file is damaged.
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

// Opens the reader, and reads the column that identifies the format.
StatusOr<std::vector<std::string>> ReadMagic(OpenIndex& index) {
  BELAY_ASSIGN_OR_RETURN(index.reader, h5::FileReader::Open(index.bytes()));
  return ReadRows<std::string>(index, ".belay/header/magic");
}

// Magic and version come first: they determine how to read the rest.
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

// Charges the memory of the objects made from the rows of tables.
Status ChargeRows(const StoredColumns& stored, h5::BoundedFile& index) {
  constexpr int64_t kBytesOfArray = 512, kBytesOfDataset = 448;
  constexpr int64_t kBytesOfObject = 256;  // also for values and their content
  const auto charge = [&](const char* path, int64_t bytes) {
    return index.Charge(bytes, path, FindColumn(stored, path).rows);
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

// Sets the paths of filtered datasets, which are opened by path.
void FindFilteredPaths(SavedCheckpoint& saved) {
  std::vector<std::string> paths;
  for (StoredDataset& dataset : saved.datasets) {
    if (dataset.filters.empty()) continue;
    if (paths.empty()) paths = ObjectPaths(saved.arrays);
    dataset.path =
        DatasetPath(paths[dataset.array], saved.arrays[dataset.array], dataset);
  }
}

// Reads and checks the index `path`. With `keys`, only what concerns these
// arrays.
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

Status ChargeCopiedTexts(const SavedCheckpoint& saved, h5::BoundedFile& index) {
  for (const StoredDataset& dataset : saved.datasets) {
    // The path of a filtered dataset contains the key once more.
    const int64_t keys = dataset.filters.empty() ? 1 : 2;
    BELAY_RETURN_IF_ERROR(
        index.Charge(std::ssize(saved.arrays[dataset.array].key),
                     "the key of each dataset", keys));
    BELAY_RETURN_IF_ERROR(
        index.Charge(std::ssize(saved.files[dataset.file].name),
                     "the file name of each dataset"));
  }
  for (const uint32_t array : saved.graph.attribute_array) {
    // The graph is checked later.
    if (array >= saved.arrays.size()) continue;
    BELAY_RETURN_IF_ERROR(index.Charge(std::ssize(saved.arrays[array].key),
                                       "the key of each value of the graph"));
  }
  return absl::OkStatus();
}

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

// --- Index image ---

namespace {

// The datasets of one array: a range of the sorted list.
using Datasets = std::span<const StoredDataset>;

// The parts of an index while it is assembled.
struct IndexParts {
  std::vector<h5::DatasetSpec> datasets;
  std::vector<std::string_view> values;  // per dataset
  std::vector<h5::ExternalLink> links;
  std::vector<std::string> paths;  // of the arrays; `links` borrow them
};

// Adds an array under its key: as a link to its dataset, or as a virtual
// dataset of its pieces.
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
  for (const StoredDataset& dataset : datasets) {
    if (NumElements(array.shape) == 0) break;
    spec.pieces.push_back({saved.files[dataset.file].name,
                           DatasetPath(path, array, dataset), dataset.box});
  }
  parts.datasets.push_back(std::move(spec));
  parts.values.emplace_back();
}

void PresentArrays(const SavedCheckpoint& saved, IndexParts& parts) {
  parts.paths = ObjectPaths(saved.arrays);
  size_t begin = 0;
  for (size_t i = 0; i < saved.arrays.size(); ++i) {
    size_t end = begin;
    while (end < saved.datasets.size() &&
           saved.datasets[end].array == static_cast<int32_t>(i)) {
      ++end;
    }
    PresentArray(parts.paths[i], saved, saved.arrays[i],
                 Datasets(saved.datasets).subspan(begin, end - begin), parts);
    begin = end;
  }
}

// Borrows the bytes.
void AddColumn(const StoredColumn& column, IndexParts& parts) {
  const bool is_text = column.dtype == DType::kString;
  parts.datasets.push_back({column.path,
                            column.dtype,
                            is_text ? column.width : 0,
                            {column.rows},
                            {}});
  parts.values.push_back(GetBytes(column));
}

// NULs pad the shorter texts of a column, so texts must not contain any.
Status CheckTexts(const char* path, const std::vector<std::string>& texts) {
  for (const std::string& text : texts) {
    if (text.find('\0') != text.npos) {
      return absl::InvalidArgumentError(
          absl::StrFormat("write \"%s\": a text has a NUL in it", path));
    }
  }
  return absl::OkStatus();
}

Status CheckAllTexts(const IndexColumns& columns) {
  Status status;
  ForEachColumn(columns, [&](const char* path, const auto& column) {
    using T = typename std::decay_t<decltype(column)>::value_type;
    if constexpr (std::is_same_v<T, std::string>) {
      if (status.ok()) status = CheckTexts(path, column);
    }
  });
  return status;
}

// Explains why HDF5 has no place for the objects of an index.
Status NoPlace(const std::string& path, const IndexParts& parts) {
  const auto too_long = [&](std::string_view object, int64_t bytes) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "create \"%s\": the name of \"%s...\" is too long for HDF5; use a "
        "shorter key (need at most %d bytes for its last part and where it "
        "leads to, found %d)",
        path, AbslView(object.substr(0, 64)), h5::kMaxLinkBytes, bytes));
  };
  const auto check = [&](std::string_view object, std::string_view file = {},
                         std::string_view target = {}) {
    int64_t most = 0;
    for (size_t begin = 0; begin <= object.size();) {
      const size_t end = std::min(object.find('/', begin), object.size());
      h5::Link link = {.name = object.substr(begin, end - begin)};
      if (end == object.size()) link.file = file;
      if (end == object.size()) link.target = target;
      most = std::max(most, h5::LinkBytes(link));
      begin = end + 1;
    }
    return most > h5::kMaxLinkBytes ? too_long(object, most) : absl::OkStatus();
  };
  for (const h5::ExternalLink& link : parts.links) {
    BELAY_RETURN_IF_ERROR(check(link.path, link.file, link.target));
  }
  for (const h5::DatasetSpec& spec : parts.datasets) {
    BELAY_RETURN_IF_ERROR(check(spec.path));
  }
  return absl::ResourceExhaustedError(absl::StrFormat(
      "create \"%s\": one group has more names than HDF5 has a place for; "
      "spread the keys over more groups (\"/\" separates them)",
      path));
}

// Returns the order of the datasets in the index: ascending by array.
std::vector<int32_t> SortDatasets(const std::vector<StoredDataset>& datasets) {
  std::vector<int32_t> order(datasets.size());
  std::iota(order.begin(), order.end(), 0);
  const auto is_before = [&](int32_t i, int32_t j) {
    const StoredDataset& a = datasets[i];
    const StoredDataset& b = datasets[j];
    return std::tie(a.array, a.box.offset) < std::tie(b.array, b.box.offset);
  };
  if (!std::is_sorted(order.begin(), order.end(), is_before)) {
    std::sort(order.begin(), order.end(), is_before);
  }
  return order;
}

// Returns `saved` with its datasets in this order: either `saved` itself, or
// `copy`.
const SavedCheckpoint& InOrder(const SavedCheckpoint& saved,
                               const std::vector<int32_t>& order,
                               std::optional<SavedCheckpoint>& copy) {
  if (std::is_sorted(order.begin(), order.end())) return saved;
  copy = saved;
  for (size_t i = 0; i < order.size(); ++i) {
    copy->datasets[i] = saved.datasets[order[i]];
  }
  return *copy;
}

// Returns the columns, with zeros as placeholders for the checksums.
IndexColumns ColumnsWithRoomForChecksums(const SavedCheckpoint& saved) {
  IndexColumns columns = ToColumns(saved);
  int64_t blocks = 0;
  for (const StoredArray& array : saved.arrays) {
    blocks += NumBlocks(ArrayBytes(array));
  }
  columns.checksum.assign(saved.has_checksums ? blocks : 0, 0);
  return columns;
}

// Writes the numbers of a column to its place in the file, and adds them to the
// digest.
void PutNumbers(const char* path, int64_t offset,
                const std::vector<int64_t>& numbers, IndexImage& image) {
  const StoredColumn column = ToStoredColumn(path, numbers);
  image.structure.Add(column);
  const std::string_view bytes = GetBytes(column);
  if (offset >= 0) image.bytes.replace(offset, bytes.size(), bytes);
}

}  // namespace

StatusOr<IndexImage> DraftIndex(const std::string& path,
                                const SavedCheckpoint& saved) {
  IndexImage image{.order = SortDatasets(saved.datasets)};
  std::optional<SavedCheckpoint> copy;
  const SavedCheckpoint& sorted = InOrder(saved, image.order, copy);
  IndexParts parts;
  PresentArrays(sorted, parts);
  StoredColumns stored;
  {
    const IndexColumns columns = ColumnsWithRoomForChecksums(sorted);
    BELAY_RETURN_IF_ERROR(CheckAllTexts(columns));
    stored = ToStoredColumns(columns);
  }
  const StoredColumn digest =
      ToStoredColumn(kDigestColumn, std::vector<uint32_t>{0, 0});
  for (const StoredColumn& column : stored) {
    const bool is_known = column.path != kFileBytesColumn &&
                          column.path != kDatasetOffsetColumn &&
                          !IsValueColumn(column.path);
    if (is_known) image.structure.Add(column);
    if (column.rows > 0) AddColumn(column, parts);
  }
  AddColumn(digest, parts);
  BELAY_ASSIGN_OR_RETURN(std::optional<h5::FileMetadata> metadata,
                         h5::EncodeFileMetadata({parts.datasets, parts.links}));
  if (!metadata.has_value()) return NoPlace(path, parts);
  image.bytes = std::move(metadata->bytes);
  image.bytes.resize(metadata->file_bytes, '\0');
  for (size_t i = 0; i < parts.values.size(); ++i) {
    const int64_t offset = metadata->offsets[i];
    if (offset < 0) continue;
    image.bytes.replace(offset, parts.values[i].size(), parts.values[i]);
    const std::string& column = parts.datasets[i].path;
    if (column == kStepColumn) image.step_offset = offset;
    if (column == kTimeColumn) image.time_offset = offset;
    if (column == kChecksumColumn) image.checksum_offset = offset;
    if (column == kDigestColumn) image.digest_offset = offset;
    if (column == kDatasetOffsetColumn) image.dataset_offset = offset;
    if (column == kFileBytesColumn) image.file_bytes_offset = offset;
  }
  return image;
}

void CompleteIndex(const SavedCheckpoint& saved, IndexImage& draft) {
  std::vector<int64_t> file_bytes, offsets;
  for (const StoredFile& file : saved.files) file_bytes.push_back(file.bytes);
  for (const int32_t i : std::exchange(draft.order, {})) {
    offsets.push_back(saved.datasets[static_cast<size_t>(i)].offset);
  }
  PutNumbers(kFileBytesColumn, draft.file_bytes_offset, file_bytes, draft);
  PutNumbers(kDatasetOffsetColumn, draft.dataset_offset, offsets, draft);
  const uint32_t digest = draft.structure.value();
  std::memcpy(draft.bytes.data() + draft.digest_offset, &digest,
              sizeof(digest));
}

}  // namespace belay
