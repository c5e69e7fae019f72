// Skeletons: data files with all their metadata and none of their data.
//
// One rank per file makes the skeleton and reserves the space. The bytes come
// from format/file_metadata.h or, if that cannot encode the file, from HDF5
// with the serial driver. The places of the datasets and the metadata bytes
// depend only on the plan, so they can be kept and written again.

#ifndef BELAY_STORAGE_SKELETON_H_
#define BELAY_STORAGE_SKELETON_H_

#include <functional>
#include <map>

#include "core/wire.h"
#include "hdf5/file.h"
#include "plan/plan.h"

namespace belay {

// The places of the datasets in a file, and all bytes that are not data.
struct Skeleton {
  int64_t file_bytes = 0;
  std::vector<int64_t> offsets;  // per dataset; -1 for those without bytes
  std::vector<std::pair<int64_t, std::string>> regions;  // offset, bytes
};

// When a file gets its space.
enum class Space : uint8_t {
  // Together with its skeleton. A rank that runs out of space has not written
  // yet, and concurrent writers do not wait for each other's blocks.
  kReserved,
  // During writing. A full disk is detected only then, perhaps on one rank
  // only.
  kAsWritten,
  // On a tmpfs like kAsWritten, because the reserving rank would have to
  // allocate all pages while the others wait; elsewhere like kReserved.
  kReservedOnDisk,
};

// A file to create. If there are hints, MPI-IO creates the empty file, so that
// they reach the file system; without hints there is no MPI call.
struct NewFile {
  std::string path;
  Space space = Space::kReserved;
  std::map<std::string, std::string> hints = {};
  // Called once the file is open, before anything is written; if HDF5 creates
  // the file, called both before and after that. May be empty. Another save may
  // have replaced the directory.
  std::function<Status()> once_open = nullptr;
};

// Creates a file with these datasets and reserves its space. The result has
// regions only if `keeps_regions`.
// Errors: ResourceExhausted - no space; those of h5::CreateDataset,
//   CreateFileWithHints and `once_open`.
StatusOr<Skeleton> CreateSkeleton(const NewFile& file,
                                  const std::vector<h5::DatasetSpec>& datasets,
                                  bool keeps_regions = false);

// Describes the dataset of an array under `path`.
h5::DatasetSpec MakeSpec(const std::string& path, const StoredArray& array,
                         const StoredDataset& dataset);

// The most bytes that the filtered chunks of these datasets can take, including
// HDF5's metadata for them: deflate slightly enlarges incompressible data.
int64_t MostFilteredBytes(const std::vector<h5::DatasetSpec>& datasets);

// Creates a file with the space of a skeleton, and with its regions if
// `with_regions`. Opens the file once, and once more by MPI-IO for hints.
// Errors: as CreateSkeleton.
Status CreateAgain(const NewFile& file, const Skeleton& skeleton,
                   bool with_regions);

namespace h5 {

// For messages between ranks.
template <typename Archive>
void Fields(Archive& archive, DatasetSpec& spec) {
  archive(spec.path, spec.dtype, spec.string_bytes, spec.shape, spec.chunk,
          spec.filters, spec.fields);
}

}  // namespace h5

}  // namespace belay

#endif  // BELAY_STORAGE_SKELETON_H_
