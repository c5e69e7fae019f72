#include "storage/verify_hdf5.h"

#include "absl/strings/str_format.h"
#include "core/child_process.h"
#include "format/paths.h"
#include "hdf5/dataset_listing.h"
#include "hdf5/program.h"
#include "storage/index_file.h"
#include "storage/skeleton.h"

namespace belay {
namespace {

// Looks for datasets of one file.
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
            file, SpecOf(DatasetPath(paths[dataset->array], array, *dataset),
                         array, *dataset)));
    if (offset == dataset->offset || offset < 0) continue;
    return absl::DataLossError(absl::StrFormat(
        "key \"%s\", box \"%s\": wrong offset in the file (need %d, found %d)",
        array.key, BoxText(dataset->box), dataset->offset, offset));
  }
  return file.Close();
}

// Checks that the index shows, under the key of each array, the values that
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
    BELAY_RETURN_IF_ERROR(h5::CheckDataset(shown, SpecOf(path, array, whole)));
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
          if (!array.fields.empty()) {  // the bytes of a struct: no axis there
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
  h5::Handle data_;  // of the array before, or none
};

// Adds a line to `damage` if a file is damaged.
// Errors: any other one.
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
  // Arrays of the index lead to these files.
  if (!damage.empty()) return Encode(damage);
  const std::string index = JoinPath(directory, IndexName());
  BELAY_RETURN_IF_ERROR(
      AddDamage(index, ArrayFinder(directory, saved).FindAll(paths), damage));
  return Encode(damage);
}

// --- Verify hdf5 ---

namespace {

// Limits of libhdf5 for a step of some size.
constexpr int64_t kLeastMemory = int64_t{512} << 20;
constexpr int64_t kMemoryPerObject = 8192;
constexpr int64_t kMemoryPerChecksum = 16;  // of the index, which is read anew
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
