#include "storage/skeleton.h"

#include <algorithm>

#include "core/status_macros.h"
#include "format/file_metadata.h"
#include "mpi/mpi_file.h"
#include "plan/chunks.h"
#include "storage/file_system.h"
#include "storage/posix_file.h"

namespace belay {

h5::DatasetSpec MakeSpec(const std::string& path, const StoredArray& array,
                         const StoredDataset& dataset) {
  const bool is_text = array.dtype == DType::kString;
  return {.path = path,
          .dtype = array.dtype,
          .string_bytes = array.string_bytes,
          .shape = is_text ? Shape{} : dataset.box.shape,
          .chunk = dataset.chunk,
          .filters = dataset.filters,
          .fields = array.fields};
}

// --- Skeleton ---

namespace {

// Measured size of object headers, links and group indexes. A slightly high
// estimate wastes a few bytes; a low one scatters the headers.
constexpr int64_t kMetadataBytesPerDataset = 384;
constexpr int64_t kMetadataBytesPerFile = 4096;
// HDF5's index of filtered chunks stores address, size and filters per chunk.
// Some filters also enlarge incompressible bytes.
constexpr int64_t kMoreBytesPerChunk = 128;
constexpr int64_t kMoreBytesPart = 128;
// Smaller datasets are stored next to each other.
constexpr int64_t kSmallDatasetBytes = int64_t{64} << 10;
// A file's space is allocated at least in pages.
constexpr int64_t kPageBytes = 4096;

// Filtered datasets get their place when they are written.
int64_t PlacedBytes(const h5::DatasetSpec& spec) {
  return spec.filters.empty() ? h5::StoredBytes(spec) : 0;
}

h5::FileLayoutHint HintFor(const std::vector<h5::DatasetSpec>& datasets) {
  h5::FileLayoutHint hint;
  hint.metadata_bytes =
      kMetadataBytesPerFile +
      kMetadataBytesPerDataset * static_cast<int64_t>(datasets.size());
  for (const h5::DatasetSpec& spec : datasets) {
    const int64_t bytes = PlacedBytes(spec);
    hint.metadata_bytes += static_cast<int64_t>(spec.path.size());
    if (bytes < kSmallDatasetBytes) hint.small_data_bytes += bytes;
  }
  hint.small_data_bytes =
      std::min(hint.small_data_bytes, 16 * kSmallDatasetBytes);
  return hint;
}

StatusOr<std::vector<int64_t>> CreateDatasets(
    h5::Handle file, const std::vector<h5::DatasetSpec>& datasets) {
  std::vector<int64_t> offsets;
  offsets.reserve(datasets.size());
  {
    h5::ObjectCache objects;
    for (const h5::DatasetSpec& spec : datasets) {
      BELAY_ASSIGN_OR_RETURN(const int64_t offset,
                             h5::CreateDataset(file, objects, spec));
      offsets.push_back(offset);
    }
  }
  BELAY_RETURN_IF_ERROR(file.Close());
  return offsets;
}

// Returns the gaps between the datasets, ascending: [first, second).
std::vector<std::pair<int64_t, int64_t>> Gaps(
    const std::vector<h5::DatasetSpec>& datasets, const Skeleton& skeleton) {
  std::vector<std::pair<int64_t, int64_t>> data;  // offset, bytes
  for (size_t i = 0; i < datasets.size(); ++i) {
    if (skeleton.offsets[i] < 0) continue;
    data.emplace_back(skeleton.offsets[i], PlacedBytes(datasets[i]));
  }
  data.emplace_back(skeleton.file_bytes, 0);
  std::sort(data.begin(), data.end());
  std::vector<std::pair<int64_t, int64_t>> gaps;
  int64_t position = 0;
  for (const auto& [offset, bytes] : data) {
    if (offset > position) gaps.emplace_back(position, offset);
    position = std::max(position, offset + bytes);
  }
  return gaps;
}

// Reserves the bytes that no dataset will fill, so that they are not holes.
Status ReserveGaps(PosixFile& file,
                   const std::vector<h5::DatasetSpec>& datasets,
                   const Skeleton& skeleton) {
  BELAY_RETURN_IF_ERROR(file.Extend(skeleton.file_bytes));
  for (const auto& [begin, end] : Gaps(datasets, skeleton)) {
    if (end - begin < kPageBytes) continue;
    BELAY_RETURN_IF_ERROR(file.Fallocate(end, begin));
  }
  return absl::OkStatus();
}

// Returns true if a file gets its space with its skeleton.
bool IsReserved(const NewFile& file) {
  return file.space == Space::kReserved ||
         (file.space == Space::kReservedOnDisk && !IsInMemory(file.path));
}

// Lets MPI-IO create the file, if there are hints.
Status CreateWithHints(const NewFile& file) {
  if (file.hints.empty()) return absl::OkStatus();
  return CreateFileWithHints(file.path, file.hints);
}

// Opens the file, and creates it if `mode` says so.
StatusOr<PosixFile> OpenNew(const NewFile& file, PosixFile::Mode mode) {
  BELAY_ASSIGN_OR_RETURN(PosixFile opened, PosixFile::Open(file.path, mode));
  if (file.once_open) BELAY_RETURN_IF_ERROR(file.once_open());
  return opened;
}

StatusOr<Skeleton> CreateByHdf5(const NewFile& file,
                                const std::vector<h5::DatasetSpec>& datasets,
                                bool keeps_regions) {
  Skeleton skeleton;
  BELAY_ASSIGN_OR_RETURN(h5::Handle created,
                         h5::CreateFile(file.path, HintFor(datasets),
                                        /*is_there=*/!file.hints.empty()));
  BELAY_ASSIGN_OR_RETURN(skeleton.offsets,
                         CreateDatasets(std::move(created), datasets));
  BELAY_ASSIGN_OR_RETURN(PosixFile opened,
                         OpenNew(file, PosixFile::Mode::kWrite));
  BELAY_ASSIGN_OR_RETURN(const FileStat stat, opened.Stat());
  skeleton.file_bytes = stat.size;
  BELAY_RETURN_IF_ERROR(IsReserved(file)
                            ? opened.Fallocate(stat.size)
                            : ReserveGaps(opened, datasets, skeleton));
  for (const auto& [begin, end] : Gaps(datasets, skeleton)) {
    if (!keeps_regions) break;
    std::string& region = skeleton.regions.emplace_back(begin, "").second;
    region.resize(static_cast<size_t>(end - begin));
    BELAY_RETURN_IF_ERROR(opened.PreadAll(begin, region.data(), end - begin));
  }
  BELAY_RETURN_IF_ERROR(opened.Close());
  return skeleton;
}

}  // namespace

StatusOr<Skeleton> CreateSkeleton(const NewFile& file,
                                  const std::vector<h5::DatasetSpec>& datasets,
                                  bool keeps_regions) {
  BELAY_ASSIGN_OR_RETURN(std::optional<h5::FileMetadata> metadata,
                         h5::EncodeFileMetadata({.datasets = datasets}));
  if (!metadata.has_value()) {
    if (file.once_open) BELAY_RETURN_IF_ERROR(file.once_open());
    BELAY_RETURN_IF_ERROR(CreateWithHints(file));
    return CreateByHdf5(file, datasets, keeps_regions);
  }
  Skeleton skeleton{.file_bytes = metadata->file_bytes,
                    .offsets = std::move(metadata->offsets)};
  skeleton.regions.emplace_back(0, std::move(metadata->bytes));
  BELAY_RETURN_IF_ERROR(CreateAgain(file, skeleton, /*with_regions=*/true));
  if (!keeps_regions) skeleton.regions.clear();
  return skeleton;
}

int64_t MostFilteredBytes(const std::vector<h5::DatasetSpec>& datasets) {
  int64_t most = 0;
  for (const h5::DatasetSpec& spec : datasets) {
    if (spec.filters.empty()) continue;
    const int64_t bytes = h5::StoredBytes(spec);
    const int64_t chunk_bytes = NumElements(spec.chunk) * DTypeSize(spec.dtype);
    most += bytes + bytes / kMoreBytesPart +
            bytes / chunk_bytes * kMoreBytesPerChunk + kMetadataBytesPerFile;
  }
  return most;
}

Status CreateAgain(const NewFile& file, const Skeleton& skeleton,
                   bool with_regions) {
  BELAY_RETURN_IF_ERROR(CreateWithHints(file));
  BELAY_ASSIGN_OR_RETURN(
      PosixFile opened,
      OpenNew(file, file.hints.empty() ? PosixFile::Mode::kCreate
                                       : PosixFile::Mode::kWrite));
  BELAY_RETURN_IF_ERROR(IsReserved(file) ? opened.Fallocate(skeleton.file_bytes)
                                         : opened.Extend(skeleton.file_bytes));
  for (const auto& [offset, bytes] : skeleton.regions) {
    if (!with_regions) break;
    BELAY_RETURN_IF_ERROR(
        opened.PwriteAll(offset, bytes.data(), std::ssize(bytes)));
  }
  return opened.Close();
}

}  // namespace belay
