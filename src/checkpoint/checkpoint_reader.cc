#include "belay/checkpoint_reader.h"

#include <algorithm>
#include <span>

#include "absl/strings/str_format.h"
#include "base/checksum.h"
#include "base/status_macros.h"
#include "geometry/runs.h"
#include "model/plan.h"
#include "store/index_file.h"
#include "store/paths.h"
#include "store/posix_file.h"
#include "store/shard_memory.h"
#include "store/verify.h"

namespace belay {
namespace {

// Read at a time; a few blocks, so that the memory stays small.
constexpr int64_t kReadBytes = 4 * kBlockBytes;

// The datasets of each array; an index lists them ascending by array.
std::vector<std::span<const StoredDataset>> DatasetsByArray(
    const SavedCheckpoint& saved) {
  std::vector<std::span<const StoredDataset>> datasets(saved.arrays.size());
  size_t begin = 0;
  while (begin < saved.datasets.size()) {
    const int32_t array = saved.datasets[begin].array;
    size_t end = begin;
    while (end < saved.datasets.size() && saved.datasets[end].array == array) {
      ++end;
    }
    datasets[array] = std::span(saved.datasets).subspan(begin, end - begin);
    begin = end;
  }
  return datasets;
}

std::string CutText(std::span<const StoredDataset> datasets) {
  if (datasets.empty()) return "empty";
  if (datasets.size() > 1) {
    return absl::StrFormat("%d pieces", datasets.size());
  }
  const StoredDataset& only = datasets[0];
  if (only.chunk.empty()) return "contiguous";
  return absl::StrFormat("%d chunks of %s", NumElements(ChunkGrid(only)),
                         ShapeText(only.chunk));
}

// Reads one array block by block, however it is stored.
class ArrayVerifier {
 public:
  ArrayVerifier(const SavedCheckpoint& saved, const std::string& directory,
                const std::function<void(int64_t)>& progress)
      : saved_(saved), directory_(directory), progress_(progress) {}

  // Compares the checksums of one array, whose first block is `first_block`.
  Status Verify(int32_t array, std::span<const StoredDataset> datasets,
                int64_t first_block, VerifyResult& result) {
    const StoredArray& stored = saved_.arrays[array];
    const int64_t bytes = ArrayBytes(stored);
    std::vector<uint32_t> registers(NumBlocks(bytes), 0);
    BELAY_RETURN_IF_ERROR(Sum(stored, datasets, registers));
    for (size_t i = 0; i < registers.size(); ++i) {
      const auto block = static_cast<int64_t>(i);
      const int64_t block_bytes =
          std::min(kBlockBytes, bytes - block * kBlockBytes);
      const uint32_t found = StandardCrc(registers[i], block_bytes);
      const uint32_t need = saved_.checksums[first_block + block];
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
    const int64_t size = IoElementSize(stored.dtype);
    Checksummer sum(registers);
    for (const StoredDataset& dataset : datasets) {
      BELAY_ASSIGN_OR_RETURN(
          PosixFile file,
          PosixFile::Open(JoinPath(directory_, saved_.files[dataset.file].name),
                          PosixFile::Mode::kRead));
      for (Extent& extent : ExtentsOf(dataset, dataset.box, size)) {
        extent.offset += dataset.offset;
        const Box box = *Intersect(extent.box, dataset.box);
        BELAY_RETURN_IF_ERROR(SumExtent(file, stored, extent, box, sum));
      }
      BELAY_RETURN_IF_ERROR(file.Close());
    }
    return absl::OkStatus();
  }

  Status SumExtent(PosixFile& file, const StoredArray& stored,
                   const Extent& extent, const Box& box, Checksummer& sum) {
    const int64_t size = IoElementSize(stored.dtype);
    ShardMemory memory{.data = nullptr,
                       .element_size = size,
                       .box = {},
                       .array = IoShape(stored)};
    Status status;
    ForEachTile(box, kReadBytes / size, [&](const Box& tile) {
      if (!status.ok()) return;
      const int64_t bytes = NumElements(tile.shape) * size;
      buffer_.resize(bytes);
      memory.data = buffer_.data();
      memory.box = tile;
      ForEachSegment(memory, tile, extent,
                     [&](char* data, int64_t offset, int64_t length) {
                       if (!status.ok()) return;
                       status = file.PreadAll(offset, data, length);
                     });
      sum.Add(memory, tile, 0);
      if (progress_) progress_(bytes);
    });
    return status;
  }

  const SavedCheckpoint& saved_;
  const std::string& directory_;
  const std::function<void(int64_t)>& progress_;
  std::string buffer_;
};

int64_t TotalBytes(const SavedCheckpoint& saved) {
  int64_t bytes = 0;
  for (const StoredArray& array : saved.arrays) bytes += ArrayBytes(array);
  return bytes;
}

}  // namespace

StatusOr<CheckpointInfo> ReadCheckpointInfo(const std::string& path) {
  BELAY_ASSIGN_OR_RETURN(const SavedCheckpoint saved, ReadIndex(path));
  CheckpointInfo info{.path = path,
                      .step = saved.step,
                      .format_major = saved.format_major,
                      .format_minor = saved.format_minor,
                      .file_layout = saved.file_layout,
                      .num_files = static_cast<int64_t>(saved.files.size()),
                      .bytes = TotalBytes(saved),
                      .has_checksums = saved.has_checksums,
                      .arrays = {}};
  const auto datasets = DatasetsByArray(saved);
  for (size_t i = 0; i < saved.arrays.size(); ++i) {
    const StoredArray& array = saved.arrays[i];
    info.arrays.push_back({.key = array.key,
                           .dtype = array.dtype,
                           .shape = array.shape,
                           .bytes = ArrayBytes(array),
                           .cut = CutText(datasets[i])});
  }
  return info;
}

StatusOr<VerifyResult> VerifyCheckpoint(
    const std::string& path,
    const std::function<void(int64_t, int64_t)>& progress) {
  BELAY_ASSIGN_OR_RETURN(const SavedCheckpoint saved, ReadIndex(path));
  VerifyResult result;
  const Status files = CheckDataFiles(path, saved);
  if (absl::IsDataLoss(files)) {
    result.damage.emplace_back(files.message());
    return result;
  }
  BELAY_RETURN_IF_ERROR(files);
  if (!saved.has_checksums) return result;
  const int64_t total = TotalBytes(saved);
  int64_t done = 0;
  const std::function<void(int64_t)> advance = [&](int64_t bytes) {
    done += bytes;
    if (progress) progress(done, total);
  };
  ArrayVerifier verifier(saved, path, advance);
  const auto datasets = DatasetsByArray(saved);
  int64_t first_block = 0;
  for (size_t i = 0; i < saved.arrays.size(); ++i) {
    BELAY_RETURN_IF_ERROR(verifier.Verify(static_cast<int32_t>(i), datasets[i],
                                          first_block, result));
    first_block += NumBlocks(ArrayBytes(saved.arrays[i]));
  }
  return result;
}

}  // namespace belay
