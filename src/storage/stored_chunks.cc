#include "storage/stored_chunks.h"

#include <limits>

#include "absl/strings/match.h"
#include "core/catch_exceptions.h"
#include "core/text.h"
#include "format/chunk_filters.h"
#include "format/paths.h"
#include "storage/filtered_reader.h"

namespace belay {
namespace {

// Fewer claimed bytes are harmless.
constexpr int64_t kFewBytes = int64_t{64} << 20;
// Most values are compressed by less.
constexpr int64_t kUsualRatio = 8;

// No filter of HDF5 itself compresses more.
constexpr int64_t kMostOfDeflate = 1040;

// Bytes of a file that a dataset has.
struct Part {
  int64_t begin = 0;
  int64_t end = 0;
  int32_t dataset = 0;
};

// The claims of the index about one file.
struct Claims {
  std::vector<int32_t> datasets;
  int64_t filtered_bytes = 0;  // of values that have passed filters
};

// The bytes of the values in a dataset.
int64_t ValueBytes(const SavedCheckpoint& saved, const StoredDataset& dataset) {
  return NumElements(dataset.box.shape) *
         IoElementSize(saved.arrays[dataset.array].dtype);
}

// Returns the claims by file. Their sum does not overflow: FromColumns checks
// that.
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

// The stored parts of one file, with the datasets that claim them.
class FileParts {
 public:
  FileParts(const SavedCheckpoint& saved, ChunkFile& file)
      : saved_(saved), file_(file) {}

  Status Add(int32_t number) {
    const StoredDataset& dataset = saved_.datasets[number];
    const StoredArray& array = saved_.arrays[dataset.array];
    if (IsEmpty(dataset.box)) return absl::OkStatus();
    if (dataset.filters.empty()) {
      // CheckBytesCountOnce has compared these with each other.
      return AddPart(dataset.offset,
                     dataset.offset + ValueBytes(saved_, dataset), number);
    }
    const FilteredDataset filtered{.path = dataset.path,
                                   .dtype = array.dtype,
                                   .box = dataset.box,
                                   .filters = dataset.filters,
                                   .fields = array.fields};
    int64_t chunk = 0;  // its number
    Largest largest;
    Status status = file_.ForEachPlace(
        filtered, [&](const ChunkFile::Place& place) -> Status {
          const h5::StoredChunk& stored = place.stored;
          if (!place.most_bytes) largest.Offer(chunk, place);
          ++chunk;
          if (place.most_bytes && place.bytes > *place.most_bytes) {
            return absl::DataLossError(
                Cat("a chunk is damaged: ", stored.bytes,
                    " stored bytes cannot hold it (need ", place.bytes,
                    " bytes, found at most ", *place.most_bytes, ")"));
          }
          return AddPart(stored.address, stored.address + stored.bytes, number);
        });
    if (status.ok() && largest.ratio > kMostOfDeflate) {
      status = reader_.TryChunk(file_.path(), filtered,
                                file_.FindCorner(filtered, largest.number));
    }
    // Chunks that only HDF5 unpacks may have an index that only HDF5 reads; and
    // if a plugin is missing, the other arrays can be read nevertheless.
    if ((absl::IsUnimplemented(status) || absl::IsFailedPrecondition(status)) &&
        !h5::CanUndo(dataset.filters)) {
      return absl::OkStatus();
    }
    return NameKey(number, status);
  }

  // Checks that no two of them have a byte in common.
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
  // The chunk of most bytes for each stored one.
  struct Largest {
    int64_t number = 0;
    int64_t ratio = 0;

    void Offer(int64_t of, const ChunkFile::Place& place) {
      const int64_t found =
          place.bytes / std::max<int64_t>(place.stored.bytes, 1);
      if (found > ratio) *this = {.number = of, .ratio = found};
    }
  };

  Status AddPart(int64_t begin, int64_t end, int32_t dataset) {
    if (begin == end) return absl::OkStatus();
    // Checked at each part: many datasets may share an index of chunks, and
    // would make more parts than the file has room for.
    if ((bytes_ += end - begin) > file_.size()) {
      return absl::DataLossError(
          Cat("chunks up to this one share stored bytes (need ", bytes_,
              " bytes in the file or more, found ", file_.size(), ")"));
    }
    BELAY_RETURN_IF_ERROR(
        file_.Charge(int64_t{sizeof(Part)}, "the places of chunks"));
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
  int64_t bytes_ = 0;  // of all of them
};

Status CheckFile(const std::string& path, const SavedCheckpoint& saved,
                 const std::vector<int32_t>& datasets) {
  StatusOr<std::unique_ptr<ChunkFile>> file = ChunkFile::Open(path);
  // A read of it will report that it is missing.
  if (absl::IsNotFound(file.status())) return absl::OkStatus();
  BELAY_RETURN_IF_ERROR(file.status());
  FileParts parts(saved, **file);
  for (const int32_t dataset : datasets) {
    BELAY_RETURN_IF_ERROR(parts.Add(dataset));
  }
  return parts.CheckDisjoint();
}

// Checks the files that claim more than `ratio` bytes for each byte.
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
