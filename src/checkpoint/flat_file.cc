#include "checkpoint/flat_file.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "h5/dataset.h"
#include "h5/dataset_listing.h"
#include "h5/file.h"
#include "h5/native_read.h"
#include "h5/native_type.h"

namespace belay {
namespace {

Status Mismatch(const Shard& shard, const std::string& cause) {
  return absl::FailedPreconditionError(
      absl::StrFormat("dataset \"%s\" %s", shard.key, cause));
}

std::string FormText(DType dtype, const Shape& shape) {
  return absl::StrFormat("%s %s", DTypeName(dtype), ShapeText(shape));
}

Status CheckFits(const Shard& shard, const h5::NativeArray& found) {
  if (!found.problem.empty()) return Mismatch(shard, found.problem);
  if (shard.dtype != found.dtype || shard.global_shape != found.shape) {
    return Mismatch(shard,
                    absl::StrFormat("has another dtype or shape (need %s, "
                                    "found %s)",
                                    FormText(shard.dtype, shard.global_shape),
                                    FormText(found.dtype, found.shape)));
  }
  const Status status = CheckBox(shard.box, found.shape);
  if (status.ok()) return status;
  return Status(status.code(), absl::StrFormat("dataset \"%s\": %s", shard.key,
                                               status.message()));
}

// Opens the dataset of a shard that fits.
StatusOr<h5::Handle> OpenFitting(const h5::Handle& file, const Shard& shard) {
  BELAY_ASSIGN_OR_RETURN(h5::Handle dataset, h5::OpenDataset(file, shard.key));
  BELAY_ASSIGN_OR_RETURN(const h5::NativeArray found,
                         h5::DescribeDataset(dataset));
  BELAY_RETURN_IF_ERROR(CheckFits(shard, found));
  BELAY_RETURN_IF_ERROR(h5::CheckSources(dataset, file.name()));
  return dataset;
}

Status ReadShard(const h5::Handle& file, const Shard& shard) {
  BELAY_ASSIGN_OR_RETURN(const h5::Handle dataset,
                         h5::OpenDataset(file, shard.key));
  if (shard.dtype != DType::kString) {
    return h5::ReadNative(dataset, shard.dtype, shard.box, shard.data);
  }
  BELAY_ASSIGN_OR_RETURN(*shard.text, h5::ReadNativeText(dataset));
  return absl::OkStatus();
}

Status ReadShards(const std::string& path, const std::vector<Shard>& shards) {
  BELAY_ASSIGN_OR_RETURN(h5::Handle file, h5::OpenFileReadOnly(path));
  for (const Shard& shard : shards) {
    BELAY_RETURN_IF_ERROR(OpenFitting(file, shard).status());
  }
  for (const Shard& shard : shards) {
    BELAY_RETURN_IF_ERROR(ReadShard(file, shard));
  }
  return file.Close();
}

StatusOr<std::vector<h5::ListedDataset>> ListFile(const std::string& path) {
  BELAY_ASSIGN_OR_RETURN(h5::Handle file, h5::OpenFileReadOnly(path));
  BELAY_ASSIGN_OR_RETURN(std::vector<h5::ListedDataset> listed,
                         h5::ListDatasets(file));
  BELAY_RETURN_IF_ERROR(file.Close());
  return listed;
}

// Names the file, which the parts do not know.
Status InFile(const char* operation, const std::string& path,
              const Status& status) {
  if (status.ok()) return status;
  return Status(status.code(), absl::StrFormat("%s \"%s\": %s", operation, path,
                                               status.message()));
}

}  // namespace

StatusOr<std::vector<FlatArray>> ListFlatFile(const std::string& path) {
  StatusOr<std::vector<h5::ListedDataset>> listed = ListFile(path);
  if (!listed.ok()) return InFile("list", path, listed.status());
  std::vector<FlatArray> arrays;
  arrays.reserve(listed->size());
  for (h5::ListedDataset& dataset : *listed) {
    arrays.push_back({.key = std::move(dataset.path),
                      .dtype = dataset.array.dtype,
                      .shape = std::move(dataset.array.shape),
                      .problem = std::move(dataset.array.problem)});
  }
  return arrays;
}

Status ReadFlatFile(const std::string& path, const std::vector<Shard>& shards) {
  return InFile("restore", path, ReadShards(path, shards));
}

}  // namespace belay
