
#include "core/strided_copy.h"
#include "format/paths.h"
#include "reader/checkpoint_reader.h"
#include "storage/filtered_reader.h"
#include "storage/metadata_file.h"
#include "storage/staging.h"
#include "storage/verify.h"

namespace belay {
namespace {

// Read at a time; a few blocks, so that the memory stays small.
constexpr int64_t kReadBytes = 4 * kBlockBytes;

// Reads one array block by block, however it is stored.
class ArrayVerifier {
 public:
  ArrayVerifier(const SavedCheckpoint& saved, const std::string& directory,
                const std::function<void(int64_t)>& progress)
      : saved_(saved), directory_(directory), progress_(progress) {}

  // Reads one array, and compares its checksums if there are some.
  Status Verify(int32_t array, const ArrayEntry& entry, VerifyResult& result) {
    const StoredArray& stored = saved_.arrays[array];
    const int64_t bytes = ArrayBytes(stored);
    std::vector<uint32_t> registers(NumBlocks(bytes), 0);
    const Status summed = Sum(stored, entry.datasets, registers);
    // What a plugin must undo that is not here says nothing of the other
    // arrays.
    if (absl::IsUnimplemented(summed) || absl::IsFailedPrecondition(summed)) {
      if (!saved_.has_checksums) return absl::OkStatus();
    }
    if (absl::IsDataLoss(summed)) {
      // Chunks whose filters HDF5 cannot undo have no bytes to compare.
      result.damage.push_back(
          absl::StrFormat("key \"%s\": %s", stored.key, summed.message()));
      return absl::OkStatus();
    }
    BELAY_RETURN_IF_ERROR(summed);
    if (!saved_.has_checksums) return absl::OkStatus();
    for (size_t i = 0; i < registers.size(); ++i) {
      const auto block = static_cast<int64_t>(i);
      const int64_t block_bytes =
          std::min(kBlockBytes, bytes - block * kBlockBytes);
      const uint32_t found = StandardCrc(registers[i], block_bytes);
      const uint32_t need = saved_.checksums[entry.first_block + block];
      ++result.blocks;
      if (found == need) continue;
      result.damage.push_back(
          DescribeDamage(saved_, array, block, need, found));
    }
    result.bytes += bytes;
    return absl::OkStatus();
  }

 private:
  Status Sum(const StoredArray& stored, std::span<const StoredDataset> datasets,
             std::span<uint32_t> registers) {
    Checksummer sum(registers);
    for (const StoredDataset& dataset : datasets) {
      BELAY_RETURN_IF_ERROR(SumDataset(stored, dataset, sum));
    }
    return absl::OkStatus();
  }

  Status SumDataset(const StoredArray& stored, const StoredDataset& dataset,
                    Checksummer& sum) {
    const bool is_filtered = !dataset.filters.empty();
    const std::string path =
        JoinPath(directory_, saved_.files[dataset.file].name);
    const FilteredDataset filtered{.path = dataset.path,
                                   .dtype = stored.dtype,
                                   .box = dataset.box,
                                   .filters = dataset.filters,
                                   .fields = stored.fields};
    std::optional<PosixFile> file;
    if (!is_filtered) {
      BELAY_ASSIGN_OR_RETURN(file,
                             PosixFile::Open(path, PosixFile::Mode::kRead));
    }
    const auto sum_extent = [&](Extent& extent) {
      if (!is_filtered) extent.offset += dataset.offset;
      const auto read = [&](const ShardMemory& memory, const Box& tile) {
        if (is_filtered) {
          return filtered_.Read(path, filtered, extent, tile, memory);
        }
        Status status;
        ForEachSegment(memory, tile, extent,
                       [&](char* data, int64_t offset, int64_t length) {
                         if (!status.ok()) return;
                         status = file->PreadAll(offset, data, length);
                       });
        return status;
      };
      return SumExtent(stored, *Intersect(extent.box, dataset.box), extent,
                       read, sum);
    };
    BELAY_RETURN_IF_ERROR(TryForEachExtent(
        dataset, dataset.box, IoElementSize(stored.dtype), sum_extent));
    return is_filtered ? absl::OkStatus() : file->Close();
  }

  Status SumExtent(
      const StoredArray& stored, const Box& box, const Extent& extent,
      absl::FunctionRef<Status(const ShardMemory&, const Box&)> read,
      Checksummer& sum) {
    const int64_t size = IoElementSize(stored.dtype);
    ShardMemory memory{.data = nullptr,
                       .element_size = size,
                       .box = {},
                       .array = IoShape(stored)};
    return TryForEachTile(
        box, kReadBytes / size, [&](const Box& tile) -> Status {
          const int64_t bytes = NumElements(tile.shape) * size;
          BELAY_RETURN_IF_ERROR(staging_.Start(bytes, stored.key,
                                               FileOffset(tile, extent, size)));
          memory.data = staging_.Take(bytes);
          memory.box = tile;
          BELAY_RETURN_IF_ERROR(read(memory, tile));
          sum.Add(memory, tile, 0);
          if (progress_) progress_(bytes);
          return absl::OkStatus();
        });
  }

  const SavedCheckpoint& saved_;
  const std::string& directory_;
  const std::function<void(int64_t)>& progress_;
  Staging staging_;
  FilteredReader filtered_;
};

StatusOr<VerifyResult> Verify(
    const std::string& path,
    const std::function<void(int64_t, int64_t)>& progress) {
  BELAY_ASSIGN_OR_RETURN(const SavedCheckpoint saved, ReadIndex(path));
  VerifyResult result;
  const Status metadata = ReadMetadataFile(path).status();
  if (absl::IsDataLoss(metadata)) {
    result.damage.emplace_back(metadata.message());
  } else {
    BELAY_RETURN_IF_ERROR(metadata);
  }
  if (!saved.graph.node_parent.empty()) {
    const Status graph = ReadObjectGraph(saved).status();
    if (absl::IsDataLoss(graph)) {
      result.damage.push_back(Cat("read \"", path, "\": ", graph.message()));
    } else {
      BELAY_RETURN_IF_ERROR(graph);
    }
  }
  Status files = CheckDataFiles(path, saved);
  if (files.ok()) files = CheckAllStoredChunks(path, saved);
  if (absl::IsDataLoss(files)) {
    result.damage.emplace_back(files.message());
    return result;
  }
  BELAY_RETURN_IF_ERROR(files);
  BELAY_ASSIGN_OR_RETURN(std::vector<std::string> damage,
                         FindHdf5Damage(path, saved));
  result.damage.insert(result.damage.end(), damage.begin(), damage.end());
  const std::vector<ArrayEntry> entries = ArrayEntries(saved);
  // Without checksums only filters can show damage.
  const auto is_read = [&](size_t array) {
    return saved.has_checksums ||
           std::any_of(
               entries[array].datasets.begin(), entries[array].datasets.end(),
               [](const StoredDataset& one) { return !one.filters.empty(); });
  };
  int64_t total = 0;
  for (size_t i = 0; i < entries.size(); ++i) {
    if (is_read(i)) total += ArrayBytes(saved.arrays[i]);
  }
  int64_t done = 0;
  const std::function<void(int64_t)> advance = [&](int64_t bytes) {
    done += bytes;
    if (progress) progress(done, total);
  };
  if (total == 0) advance(0);  // that nothing is left is progress as well
  ArrayVerifier verifier(saved, path, advance);
  for (size_t i = 0; i < entries.size(); ++i) {
    if (!is_read(i)) continue;
    BELAY_RETURN_IF_ERROR(
        verifier.Verify(static_cast<int32_t>(i), entries[i], result));
  }
  return result;
}

}  // namespace

StatusOr<VerifyResult> VerifyCheckpoint(
    const std::string& path,
    const std::function<void(int64_t, int64_t)>& progress) {
  StatusOr<VerifyResult> result = Verify(path, progress);
  if (!result.ok()) return PrintableStatus(result.status());
  for (std::string& line : result->damage) line = PrintableLine(line);
  return result;
}

}  // namespace belay
