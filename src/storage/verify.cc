#include "storage/verify.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/checksum.h"
#include "core/child_process.h"
#include "core/status_macros.h"
#include "core/text.h"
#include "format/paths.h"
#include "hdf5/native_read.h"
#include "hdf5/program.h"
#include "storage/index_file.h"
#include "storage/posix_file.h"
#include "storage/skeleton.h"

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

// Returns the smallest box that holds all elements of a block.
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

// Lists the data files that hold a part of the box; only a few if there are
// many.
std::string ListFiles(const SavedCheckpoint& saved, int32_t array,
                      const Box& box) {
  constexpr size_t kMaxNames = 8;
  std::vector<std::string> names;
  for (auto at = std::ranges::lower_bound(saved.datasets, array, {},
                                          &StoredDataset::array);
       at != saved.datasets.end() && at->array == array; ++at) {
    const StoredDataset& dataset = *at;
    if (!Intersect(dataset.box, box)) continue;
    std::string name = Shortened(saved.files[dataset.file].name);
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    names.push_back(std::move(name));
    if (names.size() > kMaxNames) break;
  }
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kMaxNames); ++i) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", "\"", names[i], "\"");
  }
  return names.size() > kMaxNames ? text + " and others" : text;
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

// --- Verification by HDF5 ---

namespace {

// Checks the datasets of one file.
Status FindDatasets(const std::string& path,
                    const std::vector<const StoredDataset*>& datasets,
                    const std::vector<std::string>& paths,
                    const SavedCheckpoint& saved) {
  BELAY_ASSIGN_OR_RETURN(h5::Handle file, h5::OpenFileReadOnly(path));
  for (const StoredDataset* dataset : datasets) {
    const StoredArray& array = saved.arrays[dataset->array];
    BELAY_ASSIGN_OR_RETURN(
        const int64_t offset,
        h5::FindDataset(
            file, MakeSpec(DatasetPath(paths[dataset->array], array, *dataset),
                           array, *dataset)));
    if (offset == dataset->offset || offset < 0) continue;
    return absl::DataLossError(absl::StrFormat(
        "key \"%s\", box \"%s\": wrong offset in the file (need %d, found %d)",
        array.key, BoxText(dataset->box), dataset->offset, offset));
  }
  return file.Close();
}

// Checks that, under the key of each array, the index shows the values that
// belay reads.
class ArrayFinder {
 public:
  ArrayFinder(const std::string& directory, const SavedCheckpoint& saved)
      : directory_(directory), saved_(saved) {}

  Status FindAll(const std::vector<std::string>& paths) {
    const std::string index = JoinPath(directory_, IndexName());
    BELAY_ASSIGN_OR_RETURN(h5::Handle file, h5::OpenFileReadOnly(index));
    const std::vector<ArrayEntry> entries = ArrayEntries(saved_);
    for (size_t i = 0; i < paths.size(); ++i) {
      const StoredArray& array = saved_.arrays[i];
      const Status found = Find(file, paths[i], array, entries[i].datasets);
      if (found.ok()) continue;
      return Status(found.code(), absl::StrFormat("key \"%s\": %s", array.key,
                                                  found.message()));
    }
    return file.Close();
  }

 private:
  using Datasets = std::span<const StoredDataset>;

  Status Find(const h5::Handle& index, const std::string& path,
              const StoredArray& array, Datasets datasets) {
    BELAY_ASSIGN_OR_RETURN(
        const h5::Handle shown,
        h5::OpenToRead(index, path, h5::OtherFiles::kFollowed));
    const StoredDataset whole = {.box = WholeBox(IoShape(array))};
    BELAY_RETURN_IF_ERROR(
        h5::CheckDataset(shown, MakeSpec(path, array, whole)));
    BELAY_ASSIGN_OR_RETURN(const std::vector<h5::VirtualPiece> pieces,
                           h5::ReadPieces(shown));
    bool is_right = false;
    if (NumElements(whole.box.shape) == 0) {
      is_right = pieces.empty();
    } else if (pieces.empty() && datasets.size() == 1) {
      BELAY_ASSIGN_OR_RETURN(is_right,
                             IsDataset(shown, path, array, datasets[0]));
    } else {
      is_right = AreDatasets(pieces, path, array, datasets);
    }
    if (is_right) return absl::OkStatus();
    return absl::DataLossError(absl::StrFormat(
        "open dataset \"%s\": it does not show the stored values", path));
  }

  StatusOr<bool> IsDataset(const h5::Handle& shown, const std::string& path,
                           const StoredArray& array,
                           const StoredDataset& dataset) {
    const std::string file =
        JoinPath(directory_, saved_.files[dataset.file].name);
    if (!data_.is_open() || data_.name() != file) {
      BELAY_ASSIGN_OR_RETURN(data_, h5::OpenFileReadOnly(file));
    }
    BELAY_ASSIGN_OR_RETURN(
        const h5::Handle need,
        h5::OpenToRead(data_, DatasetPath(path, array, dataset)));
    BELAY_ASSIGN_OR_RETURN(const h5::Identity shown_id,
                           h5::FindIdentity(shown));
    BELAY_ASSIGN_OR_RETURN(const h5::Identity need_id, h5::FindIdentity(need));
    return shown_id == need_id;
  }

  bool AreDatasets(const std::vector<h5::VirtualPiece>& pieces,
                   const std::string& path, const StoredArray& array,
                   Datasets datasets) const {
    return std::equal(
        pieces.begin(), pieces.end(), datasets.begin(), datasets.end(),
        [&](const h5::VirtualPiece& piece, const StoredDataset& dataset) {
          Box box = dataset.box;
          if (!array.fields.empty()) {  // the bytes of a struct: no axis
            box.offset.pop_back();
            box.shape.pop_back();
          }
          return piece.file == saved_.files[dataset.file].name &&
                 piece.path == DatasetPath(path, array, dataset) &&
                 piece.box == box;
        });
  }

  const std::string& directory_;
  const SavedCheckpoint& saved_;
  h5::Handle data_;  // the data file of the previous array, if any
};

// Adds a line to `damage` if the status says that a file is damaged.
// Errors: any other status.
Status AddDamage(const std::string& path, const Status& status,
                 std::vector<std::string>& damage) {
  if (status.ok()) return status;
  const bool is_damage = absl::IsDataLoss(status) || absl::IsNotFound(status) ||
                         absl::IsInternal(status);
  if (!is_damage || h5::IsOfSystem(status)) return status;
  damage.push_back(absl::StrFormat("\"%s\": other programs cannot read it: %s",
                                   path, status.message()));
  return absl::OkStatus();
}

}  // namespace

StatusOr<std::string> FindDamageHere(const std::string& directory) {
  BELAY_ASSIGN_OR_RETURN(const SavedCheckpoint saved, ReadIndex(directory));
  const std::vector<std::string> paths = ObjectPaths(saved.arrays);
  std::vector<std::vector<const StoredDataset*>> datasets(saved.files.size());
  for (const StoredDataset& dataset : saved.datasets) {
    datasets[static_cast<size_t>(dataset.file)].push_back(&dataset);
  }
  std::vector<std::string> damage;
  for (size_t i = 0; i < saved.files.size(); ++i) {
    const std::string path = JoinPath(directory, saved.files[i].name);
    BELAY_RETURN_IF_ERROR(
        AddDamage(path, FindDatasets(path, datasets[i], paths, saved), damage));
  }
  // The arrays of the index refer to these files.
  if (!damage.empty()) return Encode(damage);
  const std::string index = JoinPath(directory, IndexName());
  BELAY_RETURN_IF_ERROR(
      AddDamage(index, ArrayFinder(directory, saved).FindAll(paths), damage));
  return Encode(damage);
}

namespace {

// Limits of libhdf5, depending on the size of the step.
constexpr int64_t kLeastMemory = int64_t{512} << 20;
constexpr int64_t kMemoryPerObject = 8192;
constexpr int64_t kMemoryPerChecksum = 16;  // of the index, which is read again
constexpr double kLeastCpuSeconds = 2;
constexpr double kCpuSecondsPerObject = 0.002;
constexpr double kLeastSeconds = 60;
constexpr double kSecondsPerObject = 0.02;

}  // namespace

StatusOr<std::vector<std::string>> FindHdf5Damage(
    const std::string& directory, const SavedCheckpoint& saved) {
  const auto objects =
      static_cast<int64_t>(saved.datasets.size() + saved.arrays.size());
  const auto checksums = static_cast<int64_t>(saved.checksums.size());
  const ChildLimits limits = {.memory_bytes = kLeastMemory +
                                              kMemoryPerObject * objects +
                                              kMemoryPerChecksum * checksums};
  const double cpu =
      kLeastCpuSeconds + kCpuSecondsPerObject * static_cast<double>(objects);
  const double seconds =
      kLeastSeconds + kSecondsPerObject * static_cast<double>(objects);
  BELAY_ASSIGN_OR_RETURN(const std::vector<std::string> command,
                         h5::ProgramFor(h5::kReadsStep));
  BELAY_ASSIGN_OR_RETURN(
      ChildProcess child,
      ChildProcess::Start(absl::StrFormat("read \"%s\" by HDF5", directory),
                          command, limits));
  const StatusOr<std::string> answer = child.Ask(directory, cpu, seconds);
  if (absl::IsDataLoss(answer.status()) && !child.is_running()) {
    return std::vector<std::string>{
        absl::StrFormat("\"%s\": other programs cannot read it: %s", directory,
                        answer.status().message())};
  }
  BELAY_RETURN_IF_ERROR(answer.status());
  auto damage = Decode<std::vector<std::string>>(*answer);
  if (!damage) return absl::DataLossError("the answer of HDF5 is cut short");
  return *std::move(damage);
}

}  // namespace belay
