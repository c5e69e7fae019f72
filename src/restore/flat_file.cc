#include "restore/flat_file.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "geometry/runs.h"
#include "hdf5/guarded_file.h"
#include "io/transfer/staging.h"

namespace belay {
namespace {

// Large enough that few chunks are cut, which are read once for each part.
constexpr int64_t kTileBytes = int64_t{16} << 20;
// Other ranks wait as long for what comes of it.
constexpr double kPartOfDeadline = 0.8;

StoredForm FormOf(const FormedShards& formed, int32_t index) {
  if (!formed.forms.empty()) return formed.forms[index];
  const Shard& shard = formed.shards[index];
  return {.dtype = shard.dtype, .shape = shard.global_shape};
}

Status MismatchText(const Shard& shard, const std::string& cause) {
  return absl::FailedPreconditionError(
      absl::StrFormat("dataset \"%s\" %s", shard.key, cause));
}

Status CheckFits(const Shard& shard, const StoredForm& form,
                 const h5::NativeArray& found) {
  if (!found.problem.empty()) return MismatchText(shard, found.problem);
  if (form.dtype != found.dtype || form.shape != found.shape) {
    return MismatchText(
        shard,
        absl::StrFormat("has the wrong dtype or shape (need "
                        "%s, found %s)",
                        FormText(form), FormText({found.dtype, found.shape})));
  }
  const Status status = CheckBox(shard.box, shard.global_shape);
  if (status.ok()) return status;
  return Status(status.code(), absl::StrFormat("dataset \"%s\": %s", shard.key,
                                               status.message()));
}

// Reads the part of a shard that is stored tile by tile, and converts each.
Status ReadConverted(h5::GuardedFile& file, const FormedShards& formed,
                     int32_t index, Staging& staging) {
  const StoredForm form = FormOf(formed, index);
  const Shard& shard = formed.shards[index];
  const auto read_tile = [&](const Box& tile) -> Status {
    // Where only the shape differs, HDF5 still wants its elements dense.
    BELAY_RETURN_IF_ERROR(
        staging.Start(StoredBytes(formed, index, tile), shard.key));
    const ShardMemory staged = RoomFor(formed, index, tile, staging);
    BELAY_RETURN_IF_ERROR(file.Read(shard.key, form.dtype, tile, staged.data));
    HandOver(formed, index, tile, staged);
    return absl::OkStatus();
  };
  return TryForEachTile(StoredPart(shard.box, form.shape),
                        kTileBytes / DTypeSize(form.dtype), read_tile);
}

Status ReadShard(h5::GuardedFile& file, const FormedShards& formed,
                 int32_t index, Staging& staging) {
  const Shard& shard = formed.shards[index];
  if (shard.dtype == DType::kString) {
    BELAY_ASSIGN_OR_RETURN(*shard.text, file.ReadText(shard.key));
    return absl::OkStatus();
  }
  if (IsStaged(formed, index) ||
      FormOf(formed, index) != StoredForm{shard.dtype, shard.global_shape}) {
    return ReadConverted(file, formed, index, staging);
  }
  return file.Read(shard.key, shard.dtype, shard.box, shard.data);
}

Status ReadShards(const std::string& path, const FormedShards& formed,
                  double deadline_seconds, Staging& staging) {
  BELAY_ASSIGN_OR_RETURN(
      h5::GuardedFile file,
      h5::GuardedFile::Open(path, kPartOfDeadline * deadline_seconds));
  const auto count = static_cast<int32_t>(formed.shards.size());
  for (int32_t i = 0; i < count; ++i) {
    const Shard& shard = formed.shards[i];
    BELAY_ASSIGN_OR_RETURN(const h5::NativeArray found,
                           file.Describe(shard.key, /*checks_sources=*/true));
    BELAY_RETURN_IF_ERROR(CheckFits(shard, FormOf(formed, i), found));
  }
  for (int32_t i = 0; i < count; ++i) {
    BELAY_RETURN_IF_ERROR(ReadShard(file, formed, i, staging));
  }
  return absl::OkStatus();
}

StatusOr<std::vector<h5::ListedDataset>> ListFile(const std::string& path,
                                                  double deadline_seconds) {
  BELAY_ASSIGN_OR_RETURN(
      h5::GuardedFile file,
      h5::GuardedFile::Open(path, kPartOfDeadline * deadline_seconds));
  return file.List();
}

// Names the file, which the parts do not know.
Status InFile(const char* operation, const std::string& path,
              const Status& status) {
  if (status.ok()) return status;
  return Status(status.code(), absl::StrFormat("%s \"%s\": %s", operation, path,
                                               status.message()));
}

}  // namespace

StatusOr<std::vector<FlatArray>> ListFlatFile(const std::string& path,
                                              double deadline_seconds) {
  StatusOr<std::vector<h5::ListedDataset>> listed =
      ListFile(path, deadline_seconds);
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

Status ReadFlatFile(const std::string& path, const std::vector<Shard>& shards,
                    const std::vector<StoredForm>& forms, int64_t* staged_bytes,
                    double deadline_seconds) {
  Staging staging;
  const Status status =
      ReadShards(path, {shards, forms}, deadline_seconds, staging);
  if (staged_bytes != nullptr) *staged_bytes = staging.most_bytes();
  return InFile("restore", path, status);
}

}  // namespace belay
