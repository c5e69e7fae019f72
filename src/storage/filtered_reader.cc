#include "storage/filtered_reader.h"

#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/catch_exceptions.h"
#include "core/strided_copy.h"
#include "core/text.h"
#include "format/chunked_dataset.h"
#include "format/paths.h"
#include "plan/save_planner.h"

namespace belay {
namespace {

// Prefixes the file name, unless the message already has it.
Status NameFile(const std::string& path, const Status& status) {
  const std::string begin = absl::StrFormat("read \"%s\": ", path);
  if (status.ok() || absl::StartsWith(status.message(), begin)) return status;
  return Status(status.code(), absl::StrCat(begin, status.message()));
}

// Returns DataLoss: the dataset in the file differs from the index.
Status IsAnother(const FilteredDataset& dataset, std::string_view what) {
  return absl::DataLossError(Cat("dataset \"", dataset.path, "\": its ", what,
                                 " is not what the index says"));
}

// Checks that the dataset in the file matches the index. Compares filters by ID
// only: HDF5 adds parameters to the ones that were given.
Status CheckDataset(const FilteredDataset& dataset,
                    const h5::ChunkedDataset& found) {
  const h5::ElementType type = {dataset.dtype, 0, dataset.fields};
  BELAY_ASSIGN_OR_RETURN(const std::string as_hdf5,
                         h5::EncodedType(type, /*in_file=*/true));
  BELAY_ASSIGN_OR_RETURN(const std::string as_ours, h5::EncodedType(type));
  if (found.type != as_hdf5 && found.type != as_ours) {
    return IsAnother(dataset, "type");
  }
  if (found.shape != h5::DatasetAxes(type, dataset.box.shape)) {
    return IsAnother(dataset, "shape");
  }
  bool is_same = found.filters.size() == dataset.filters.size();
  for (size_t i = 0; is_same && i < found.filters.size(); ++i) {
    is_same = found.filters[i].id == dataset.filters[i].id;
  }
  return is_same ? absl::OkStatus() : IsAnother(dataset, "list of filters");
}

// The elements of a box, row-major.
struct BoxBytes {
  Box box;
  std::string bytes;
};

}  // namespace

// An open file. For one thread at a time.
class ChunkFile {
 public:
  // Errors: those of PosixFile and of h5::FileReader.
  static StatusOr<std::unique_ptr<ChunkFile>> Open(const std::string& path) {
    BELAY_ASSIGN_OR_RETURN(std::unique_ptr<Hdf5Bytes> file,
                           Hdf5Bytes::Open(path));
    BELAY_ASSIGN_OR_RETURN(h5::FileReader reader,
                           h5::FileReader::Open(file->bytes()));
    return std::unique_ptr<ChunkFile>(
        new ChunkFile(std::move(file), std::move(reader)));
  }

  const std::string& path() const { return file_->bytes().name(); }
  h5::BoundedFile& bytes() { return file_->bytes(); }

  // Returns the chunk that begins at `corner`, an element of the array. The
  // chunk is complete even at the edges of the dataset.
  // Errors: DataLoss - damaged, or another dataset than the index says;
  //   Unimplemented - stored by HDF5 in a way that is not supported here, or
  //   h5::CanUndo does not know its filters; those of h5::BoundedFile.
  StatusOr<BoxBytes> Read(const FilteredDataset& dataset, const Shape& corner) {
    BELAY_ASSIGN_OR_RETURN(const h5::ChunkedDataset* found, Find(dataset));
    Shape in_dataset = corner;
    for (size_t axis = 0; axis < corner.size(); ++axis) {
      in_dataset[axis] -= dataset.box.offset[axis];
    }
    const h5::ElementType type = {dataset.dtype, 0, dataset.fields};
    in_dataset = h5::DatasetAxes(type, std::move(in_dataset));
    for (size_t axis = 0; axis < in_dataset.size(); ++axis) {
      if (in_dataset[axis] % found->chunk[axis] != 0) {
        return IsAnother(dataset, "chunk");
      }
    }
    BoxBytes chunk = {.box = {.offset = corner, .shape = found->chunk},
                      .bytes = {}};
    // The last axis of an array of structs has the bytes of a struct.
    if (!dataset.fields.empty()) {
      chunk.box.shape.push_back(found->element_bytes);
    }
    BELAY_ASSIGN_OR_RETURN(chunk.bytes,
                           h5::ReadChunk(file_->bytes(), *found, in_dataset));
    return chunk;
  }

  // Finds a dataset and checks that it matches the index. Borrowed.
  StatusOr<const h5::ChunkedDataset*> Find(const FilteredDataset& dataset) {
    auto known = datasets_.find(dataset.path);
    if (known == datasets_.end()) {
      BELAY_ASSIGN_OR_RETURN(std::optional<h5::ChunkedDataset> found,
                             reader_.FindChunked(dataset.path));
      if (!found) {
        return absl::DataLossError(
            Cat("dataset \"", dataset.path, "\" is not there"));
      }
      BELAY_RETURN_IF_ERROR(CheckDataset(dataset, *found));
      known = datasets_.emplace(dataset.path, *std::move(found)).first;
    }
    return &known->second;
  }

 private:
  ChunkFile(std::unique_ptr<Hdf5Bytes> file, h5::FileReader reader)
      : file_(std::move(file)), reader_(std::move(reader)) {}

  std::unique_ptr<Hdf5Bytes> file_;
  h5::FileReader reader_;
  absl::flat_hash_map<std::string, h5::ChunkedDataset> datasets_;
};

FilteredReader::FilteredReader(int64_t kept_bytes) : kept_bytes_(kept_bytes) {}
FilteredReader::FilteredReader(FilteredReader&&) noexcept = default;
FilteredReader& FilteredReader::operator=(FilteredReader&&) noexcept = default;
FilteredReader::~FilteredReader() = default;

void FilteredReader::Close() {
  by_name_.clear();
  held_.clear();
  held_bytes_ = 0;
  own_file_.reset();
  guarded_file_.reset();
}

// Reads a box of the array into `bytes`, which has its size.
Status FilteredReader::AskHdf5(const std::string& path,
                               const FilteredDataset& dataset, const Box& box,
                               std::string& bytes) {
  if (!guarded_file_ || guarded_path_ != path) {
    guarded_file_.reset();
    guarded_path_ = path;
    BELAY_ASSIGN_OR_RETURN(
        guarded_file_, h5::GuardedFile::Open(path, 0, h5::WrittenBy::kBelay));
  }
  const Status status = guarded_file_->ReadStored(
      dataset.path, {dataset.dtype, 0, dataset.fields}, dataset.filters,
      FromCorner(box, dataset.box.offset),
      reinterpret_cast<std::byte*>(bytes.data()));
  if (!status.ok()) guarded_file_.reset();  // the process may have ended
  return status;
}

Status FilteredReader::TryChunk(const std::string& path,
                                const FilteredDataset& dataset,
                                const Shape& corner) {
  Box one{.offset = corner, .shape = Shape(corner.size(), 1)};
  // A struct is read whole.
  if (!dataset.fields.empty()) one.shape.back() = dataset.box.shape.back();
  std::string bytes(NumElements(one.shape) * DTypeSize(dataset.dtype), '\0');
  return NameFile(path, AskHdf5(path, dataset, one, bytes));
}

Status FilteredReader::ReadByHdf5(const std::string& path,
                                  const FilteredDataset& dataset,
                                  Chunk& chunk) {
  // A few stored bytes may claim to be a chunk of any size.
  constexpr int64_t kLargeChunk = int64_t{64} << 20;
  const int64_t bytes = NumElements(chunk.box.shape) * DTypeSize(dataset.dtype);
  if (bytes > kLargeChunk) {
    BELAY_RETURN_IF_ERROR(TryChunk(path, dataset, chunk.box.offset));
  }
  chunk.bytes = MakeRoom(bytes);
  chunk.bytes.resize(bytes);
  return AskHdf5(path, dataset, chunk.box, chunk.bytes);
}

Status FilteredReader::ReadChunk(const std::string& path,
                                 const FilteredDataset& dataset,
                                 const Extent& extent, Chunk& chunk) {
  ++chunks_;
  chunk.box = *Intersect(extent.box, dataset.box);
  if (!h5::CanUndo(dataset.filters)) {
    return ReadByHdf5(path, dataset, chunk);
  }
  if (own_file_ == nullptr || own_file_->path() != path) {
    own_file_.reset();
    BELAY_ASSIGN_OR_RETURN(own_file_, ChunkFile::Open(path));
  }
  MakeRoom(NumElements(chunk.box.shape) * DTypeSize(dataset.dtype));
  BELAY_ASSIGN_OR_RETURN(BoxBytes read,
                         own_file_->Read(dataset, chunk.box.offset));
  const std::optional<Box> known = Intersect(read.box, dataset.box);
  if (!known || *known != chunk.box) {
    return absl::DataLossError(
        absl::StrFormat("dataset \"%s\": its chunks are not those that the "
                        "index says (need \"%s\", found \"%s\")",
                        dataset.path, BoxText(chunk.box), BoxText(read.box)));
  }
  chunk.box = std::move(read.box);
  chunk.bytes = std::move(read.bytes);
  return absl::OkStatus();
}

std::string FilteredReader::MakeRoom(int64_t bytes) {
  std::string memory;
  while (!held_.empty() && held_bytes_ + bytes > kept_bytes_) {
    Chunk& last = held_.back();
    held_bytes_ -= std::ssize(last.bytes);
    by_name_.erase(last.name);
    memory = std::move(last.bytes);
    held_.pop_back();
  }
  return memory;
}

Status FilteredReader::Read(const std::string& path,
                            const FilteredDataset& dataset,
                            const Extent& extent, const Box& box,
                            const ShardMemory& memory) {
  WireWriter name;
  name.PutText(path);
  name.PutText(dataset.path);
  name.PutShape(extent.box.offset);
  const auto found = by_name_.find(name.bytes());
  if (found != by_name_.end()) {
    held_.splice(held_.begin(), held_, found->second);
  } else {
    Chunk chunk{.name = name.Take(), .box = {}, .bytes = {}};
    BELAY_RETURN_IF_ERROR(NameFile(path, CatchBadAlloc("a chunk", [&] {
                                     return ReadChunk(path, dataset, extent,
                                                      chunk);
                                   })));
    held_bytes_ += std::ssize(chunk.bytes);
    held_.push_front(std::move(chunk));
    by_name_[held_.front().name] = held_.begin();
  }
  const Chunk& chunk = held_.front();
  const int64_t size = memory.element_size;
  ForEachRun(box, chunk.box, memory.box, [&](const ElementRun& run) {
    std::memcpy(memory.data + run.b * size, chunk.bytes.data() + run.a * size,
                run.length * size);
  });
  return absl::OkStatus();
}

// --- Stored chunks ---

namespace {

// Up to this many claimed bytes are harmless.
constexpr int64_t kFewBytes = int64_t{64} << 20;
// Most data compresses by less.
constexpr int64_t kUsualRatio = 8;

// HDF5's built-in filters compress by at most this factor.
constexpr int64_t kMaxOfDeflate = 1040;

// The bytes in a file that belong to a dataset.
struct Part {
  int64_t begin = 0;
  int64_t end = 0;
  int32_t dataset = 0;
};

// The claims of the index about one file.
struct Claims {
  std::vector<int32_t> datasets;
  int64_t filtered_bytes = 0;  // unpacked, of filtered values
};

// The size in bytes of the values in a dataset.
int64_t ValueBytes(const SavedCheckpoint& saved, const StoredDataset& dataset) {
  return NumElements(dataset.box.shape) *
         IoElementSize(saved.arrays[dataset.array].dtype);
}

// Returns the claims per file. The sums do not overflow, as FromColumns has
// checked.
std::vector<Claims> CollectClaims(const SavedCheckpoint& saved) {
  std::vector<Claims> claims(saved.files.size());
  for (size_t i = 0; i < saved.datasets.size(); ++i) {
    const StoredDataset& dataset = saved.datasets[i];
    Claims& of_file = claims[dataset.file];
    of_file.datasets.push_back(static_cast<int32_t>(i));
    if (!dataset.filters.empty()) {
      of_file.filtered_bytes += ValueBytes(saved, dataset);
    }
  }
  return claims;
}

// The stored parts of one file, and the datasets that claim them.
class FileParts {
 public:
  FileParts(const SavedCheckpoint& saved, ChunkFile& file)
      : saved_(saved), file_(file) {}

  Status Add(int32_t number) {
    const StoredDataset& dataset = saved_.datasets[number];
    const StoredArray& array = saved_.arrays[dataset.array];
    if (IsEmpty(dataset.box)) return absl::OkStatus();
    if (dataset.filters.empty()) {
      // CheckBytesCountOnce has checked unfiltered datasets against each other.
      return AddPart(dataset.offset,
                     dataset.offset + ValueBytes(saved_, dataset), number);
    }
    const FilteredDataset filtered{.path = dataset.path,
                                   .dtype = array.dtype,
                                   .box = dataset.box,
                                   .filters = dataset.filters,
                                   .fields = array.fields};
    Status status = AddChunks(filtered, number);
    // Chunks that only HDF5 unpacks may have an index that only HDF5 reads. And
    // without the plugin, the other arrays can still be read.
    if ((absl::IsUnimplemented(status) || absl::IsFailedPrecondition(status)) &&
        !h5::CanUndo(dataset.filters)) {
      return absl::OkStatus();
    }
    return NameKey(number, status);
  }

  // Checks that no two parts have a byte in common.
  Status CheckDisjoint() {
    std::sort(parts_.begin(), parts_.end(),
              [](const Part& a, const Part& b) { return a.begin < b.begin; });
    for (size_t i = 1; i < parts_.size(); ++i) {
      const Part& before = parts_[i - 1];
      if (parts_[i].begin >= before.end) continue;
      return NameKey(
          parts_[i].dataset,
          absl::DataLossError(
              Cat("it shares stored bytes with key \"",
                  saved_.arrays[saved_.datasets[before.dataset].array].key,
                  "\" (need an offset of at least ", before.end, ", found ",
                  parts_[i].begin, ")")));
    }
    return absl::OkStatus();
  }

 private:
  // Adds the chunks of a dataset. If their filters may compress by any ratio,
  // unpacks the chunk with the highest ratio.
  Status AddChunks(const FilteredDataset& dataset, int32_t number) {
    BELAY_ASSIGN_OR_RETURN(const h5::ChunkedDataset* found,
                           file_.Find(dataset));
    const int64_t bytes = h5::ChunkBytes(*found);
    int64_t chunk = 0, largest = 0, largest_ratio = 0;
    BELAY_RETURN_IF_ERROR(h5::ForEachStoredChunk(
        file_.bytes(), *found, [&](const h5::StoredChunk& stored) -> Status {
          const std::optional<int64_t> most = h5::MostUnfilteredBytes(
              found->filters, stored.left_out, stored.bytes);
          const int64_t ratio = bytes / std::max<int64_t>(stored.bytes, 1);
          if (!most && ratio > largest_ratio) {
            largest = chunk;
            largest_ratio = ratio;
          }
          ++chunk;
          if (most && bytes > *most) {
            return absl::DataLossError(
                Cat("a chunk is damaged: ", stored.bytes,
                    " stored bytes cannot hold it (need ", bytes,
                    " bytes, found at most ", *most, ")"));
          }
          return AddPart(stored.address, stored.address + stored.bytes, number);
        }));
    if (largest_ratio <= kMaxOfDeflate) return absl::OkStatus();
    Shape corner = dataset.box.offset;
    const Shape in_dataset = h5::FindChunkCorner(*found, largest);
    // A dataset of structs does not have the last axis of the array.
    for (size_t axis = 0; axis < in_dataset.size(); ++axis) {
      corner[axis] += in_dataset[axis];
    }
    return reader_.TryChunk(file_.path(), dataset, corner);
  }

  Status AddPart(int64_t begin, int64_t end, int32_t dataset) {
    if (begin == end) return absl::OkStatus();
    // Checked for each part: many datasets may share one chunk index, and would
    // add more parts than the file has room for.
    if ((bytes_ += end - begin) > file_.bytes().size()) {
      return absl::DataLossError(
          Cat("chunks up to this one share stored bytes (need ", bytes_,
              " bytes in the file or more, found ", file_.bytes().size(), ")"));
    }
    BELAY_RETURN_IF_ERROR(
        file_.bytes().Charge(sizeof(Part), "the places of chunks"));
    parts_.push_back({begin, end, dataset});
    return absl::OkStatus();
  }

  Status NameKey(int32_t dataset, const Status& status) const {
    if (status.ok()) return status;
    std::string_view cause(status.message().data(), status.message().size());
    const std::string start = Cat("read \"", file_.path(), "\": ");
    if (cause.starts_with(start)) cause.remove_prefix(start.size());
    return Status(
        status.code(),
        Cat(start, "key \"", saved_.arrays[saved_.datasets[dataset].array].key,
            "\": ", cause));
  }

  const SavedCheckpoint& saved_;
  ChunkFile& file_;
  FilteredReader reader_;
  std::vector<Part> parts_;
  int64_t bytes_ = 0;  // of all parts
};

Status CheckFile(const std::string& path, const SavedCheckpoint& saved,
                 const std::vector<int32_t>& datasets) {
  StatusOr<std::unique_ptr<ChunkFile>> file = ChunkFile::Open(path);
  // Reading the missing file will report the error.
  if (absl::IsNotFound(file.status())) return absl::OkStatus();
  BELAY_RETURN_IF_ERROR(file.status());
  FileParts parts(saved, **file);
  for (const int32_t dataset : datasets) {
    BELAY_RETURN_IF_ERROR(parts.Add(dataset));
  }
  return parts.CheckDisjoint();
}

// Checks the files that claim at least `ratio` bytes per byte of the file.
Status CheckFiles(const std::string& directory, const SavedCheckpoint& saved,
                  const std::vector<Claims>& claims, int64_t ratio) {
  for (size_t i = 0; i < claims.size(); ++i) {
    const StoredFile& file = saved.files[i];
    if (claims[i].filtered_bytes / std::max<int64_t>(file.bytes, 1) < ratio ||
        claims[i].filtered_bytes == 0) {
      continue;
    }
    const std::string path = JoinPath(directory, file.name);
    BELAY_RETURN_IF_ERROR(CatchBadAlloc("the places of chunks", [&] {
      return CheckFile(path, saved, claims[i].datasets);
    }));
  }
  return absl::OkStatus();
}

}  // namespace

Status CheckStoredChunks(const std::string& directory,
                         const SavedCheckpoint& saved) {
  const std::vector<Claims> claims = CollectClaims(saved);
  int64_t filtered = 0;
  for (const Claims& of_file : claims) filtered += of_file.filtered_bytes;
  if (filtered <= kFewBytes) return absl::OkStatus();
  return CheckFiles(directory, saved, claims, kUsualRatio);
}

Status CheckAllStoredChunks(const std::string& directory,
                            const SavedCheckpoint& saved) {
  return CheckFiles(directory, saved, CollectClaims(saved), 0);
}

}  // namespace belay
