#include "storage/verify.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/checksum.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "format/paths.h"
#include "storage/posix_file.h"

namespace belay {
namespace {

int64_t BlockBytes(int64_t array_bytes, int64_t block) {
  return std::min(kBlockBytes, array_bytes - block * kBlockBytes);
}

// Returns the position of an element with this row-major number.
Shape FindPosition(int64_t element, const Shape& shape) {
  Shape position(shape.size());
  for (size_t i = shape.size(); i-- > 0;) {
    position[i] = element % shape[i];
    element /= shape[i];
  }
  return position;
}

// The smallest box that holds all elements of a block.
Box FindBlockBox(const StoredArray& array, int64_t block) {
  const Shape shape = IoShape(array);
  const int64_t size = IoElementSize(array.dtype);
  const int64_t bytes = BlockBytes(ArrayBytes(array), block);
  const Shape first = FindPosition(block * kBlockBytes / size, shape);
  const Shape last =
      FindPosition((block * kBlockBytes + bytes - 1) / size, shape);
  Box box = WholeBox(shape);
  for (size_t i = 0; i < shape.size(); ++i) {
    box.offset[i] = first[i];
    box.shape[i] = last[i] - first[i] + 1;
    if (first[i] == last[i]) continue;
    // Rows between the first and the last are whole.
    for (size_t j = i + 1; j < shape.size(); ++j) {
      box.offset[j] = 0;
      box.shape[j] = shape[j];
    }
    break;
  }
  return box;
}

// The data files that hold a part of the box, not all if they are many.
std::string ListFiles(const SavedCheckpoint& saved, int32_t array,
                      const Box& box) {
  constexpr size_t kMostNames = 8;
  std::vector<std::string> names;
  for (auto at = std::ranges::lower_bound(saved.datasets, array, {},
                                          &StoredDataset::array);
       at != saved.datasets.end() && at->array == array; ++at) {
    const StoredDataset& dataset = *at;
    if (!Intersect(dataset.box, box)) continue;
    std::string name = Shortened(saved.files[dataset.file].name);
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    names.push_back(std::move(name));
    if (names.size() > kMostNames) break;
  }
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kMostNames); ++i) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", "\"", names[i], "\"");
  }
  return names.size() > kMostNames ? text + " and others" : text;
}

}  // namespace

std::vector<uint32_t> FinishChecksums(const std::vector<StoredArray>& arrays,
                                      std::span<const uint32_t> registers) {
  std::vector<uint32_t> checksums;
  checksums.reserve(registers.size());
  for (const StoredArray& array : arrays) {
    const int64_t bytes = ArrayBytes(array);
    for (int64_t block = 0; block < NumBlocks(bytes); ++block) {
      checksums.push_back(
          StandardCrc(registers[checksums.size()], BlockBytes(bytes, block)));
    }
  }
  return checksums;
}

StatusOr<int64_t> FileBytes(const std::string& path) {
  BELAY_ASSIGN_OR_RETURN(PosixFile file,
                         PosixFile::Open(path, PosixFile::Mode::kRead));
  BELAY_ASSIGN_OR_RETURN(const FileStat stat, file.Stat());
  BELAY_RETURN_IF_ERROR(file.Close());
  return stat.size;
}

Status CheckWrittenFile(const std::string& path, int64_t bytes,
                        bool& has_holes) {
  BELAY_ASSIGN_OR_RETURN(PosixFile file,
                         PosixFile::Open(path, PosixFile::Mode::kRead));
  BELAY_ASSIGN_OR_RETURN(const FileStat stat, file.Stat());
  has_holes = stat.allocated_bytes < bytes;
  if (stat.size == bytes) return file.Close();
  return absl::DataLossError(absl::StrFormat(
      "verify \"%s\": the file changed its size while it was written (need %d "
      "bytes, found %d)",
      path, bytes, stat.size));
}

std::string DescribeDamage(const SavedCheckpoint& saved, int32_t array,
                           int64_t block, uint32_t need, uint32_t found) {
  const Box box = FindBlockBox(saved.arrays[array], block);
  return absl::StrFormat(
      "checksum of key \"%s\", block %d (box \"%s\") in file %s does not match "
      "(need 0x%08x, found 0x%08x)",
      Shortened(saved.arrays[array].key), block, BoxText(box),
      ListFiles(saved, array, box), need, found);
}

Status CompareChecksums(const SavedCheckpoint& saved, const RestorePlan& plan,
                        const std::string& operation,
                        std::span<const uint32_t> registers,
                        std::span<const int64_t> covered, BlockCounts& counts) {
  std::vector<int64_t> first_stored;
  int64_t next = 0;
  for (const StoredArray& array : saved.arrays) {
    first_stored.push_back(next);
    next += NumBlocks(ArrayBytes(array));
  }
  std::string first;
  int64_t damaged = 0;
  for (size_t i = 0; i < plan.arrays.size(); ++i) {
    const int32_t array = plan.arrays[i];
    const int64_t bytes = ArrayBytes(saved.arrays[array]);
    for (int64_t block = 0; block < NumBlocks(bytes); ++block) {
      const int64_t here = plan.first_blocks[i] + block;
      if (covered[here] == 0) continue;
      const int64_t block_bytes = BlockBytes(bytes, block);
      if (covered[here] < block_bytes) {
        ++counts.partial;
        continue;
      }
      ++counts.verified;
      const uint32_t need = saved.checksums[first_stored[array] + block];
      const uint32_t found = StandardCrc(registers[here], block_bytes);
      if (need == found) continue;
      if (damaged++ == 0) {
        first = DescribeDamage(saved, array, block, need, found);
      }
    }
  }
  if (damaged == 0) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrFormat("%s: %s; %d damaged %s in all", operation, first, damaged,
                      damaged == 1 ? "block" : "blocks"));
}

}  // namespace belay
