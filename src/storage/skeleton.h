// Skeletons: data files with all their metadata and none of their data.
//
// One rank per file makes the skeleton and reserves the space: from bytes that
// format/file_metadata.h has put together, or, where it cannot, by
// HDF5 with the serial driver. The places of the datasets and the metadata
// bytes depend only on the plan, so they can be kept and written again.

#ifndef BELAY_STORAGE_SKELETON_H_
#define BELAY_STORAGE_SKELETON_H_

#include <functional>
#include <map>

#include "core/wire.h"
#include "hdf5/file.h"
#include "plan/plan.h"

namespace belay {

// The places of the datasets of a file, and all its bytes that are not data.
struct Skeleton {
  int64_t file_bytes = 0;
  std::vector<int64_t> offsets;  // by dataset; -1 for those without bytes
  std::vector<std::pair<int64_t, std::string>> regions;  // offset, bytes
};

// When a file gets its space.
enum class Space : uint8_t {
  // With its skeleton: a rank that runs out of space has not written yet, and
  // ranks that write at the same time do not wait for each other's blocks.
  kReserved,
  // As it is written: a full disk shows then, and may show on one rank only.
  kAsWritten,
  // kAsWritten in memory, where the rank that reserves would take all pages
  // while the others wait; elsewhere kReserved.
  kReservedOnDisk,
};

// A file to create. With hints MPI-IO creates it, empty, so that they reach the
// file system; without hints there is no MPI call.
struct NewFile {
  std::string path;
  Space space = Space::kReserved;
  std::map<std::string, std::string> hints = {};
  // Called once the file is open, before anything is written; where HDF5
  // creates it, before and after that. May be empty. Another save may have
  // taken the place of the directory.
  std::function<Status()> once_open = nullptr;
};

// Creates a file with these datasets and reserves its space. The result has no
// regions unless `keeps_regions`.
// Errors: ResourceExhausted - no space; those of h5::CreateDataset,
//   CreateFileWithHints and `once_open`.
StatusOr<Skeleton> CreateSkeleton(const NewFile& file,
                                  const std::vector<h5::DatasetSpec>& datasets,
                                  bool keeps_regions = false);

// Describes the dataset of an array under `path`.
h5::DatasetSpec MakeSpec(const std::string& path, const StoredArray& array,
                         const StoredDataset& dataset);

// The most bytes that the chunks with filters of these datasets, and what HDF5
// notes of each, can take: deflate makes noise a little longer.
int64_t MostFilteredBytes(const std::vector<h5::DatasetSpec>& datasets);

// Creates a file with the space of a skeleton, and with its regions if
// `with_regions`. It is opened once, but by MPI-IO if there are hints.
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
