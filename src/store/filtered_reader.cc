#include "store/filtered_reader.h"

#include <cstring>
#include <mutex>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "base/with_memory.h"
#include "geometry/runs.h"
#include "h5/dataset.h"
#include "h5/error.h"
#include "h5/file.h"
#include "h5/filter.h"

namespace belay {
namespace {

std::mutex& Turn() {
  static auto* mutex = new std::mutex;
  return *mutex;
}

// The index promises what HDF5 does not find, or cannot make sense of.
Status InFile(const std::string& path, const Status& status) {
  if (status.ok()) return status;
  const bool is_damage = absl::IsNotFound(status) ||
                         (absl::IsInternal(status) && !h5::IsOfSystem(status));
  if (!is_damage) {
    return Status(status.code(),
                  absl::StrFormat("read \"%s\": %s", path, status.message()));
  }
  return absl::DataLossError(
      absl::StrFormat("read \"%s\": damaged: %s", path, status.message()));
}

// The box counted from the corner of its dataset.
Box FromCorner(Box box, const Shape& corner) {
  for (size_t i = 0; i < corner.size(); ++i) box.offset[i] -= corner[i];
  return box;
}

}  // namespace

FilteredReader::~FilteredReader() { Close().IgnoreError(); }

Status FilteredReader::Close() {
  dataset_.clear();
  if (!file_.is_open()) return absl::OkStatus();
  const std::lock_guard lock(Turn());
  return file_.Close();
}

Status FilteredReader::ReadChunk(const std::string& path,
                                 const FilteredDataset& dataset,
                                 const Extent& extent) {
  if (file_.is_open() && file_.name() != path) BELAY_RETURN_IF_ERROR(Close());
  const std::lock_guard lock(Turn());
  if (!file_.is_open()) {
    BELAY_ASSIGN_OR_RETURN(file_, h5::OpenFileReadOnly(path));
  }
  BELAY_RETURN_IF_ERROR(h5::CheckCanRead(dataset.filters));
  dataset_.clear();
  box_ = *Intersect(extent.box, dataset.box);
  const int64_t bytes = NumElements(box_.shape) * DTypeSize(dataset.dtype);
  BELAY_RETURN_IF_ERROR(WithMemory("a chunk", [&] {
    chunk_.resize(bytes);
    return absl::OkStatus();
  }));
  BELAY_RETURN_IF_ERROR(h5::ReadHyperslab(file_, dataset.path, dataset.dtype, 0,
                                          FromCorner(box_, dataset.box.offset),
                                          chunk_.data()));
  dataset_ = dataset.path;
  ++chunks_;
  return absl::OkStatus();
}

Status FilteredReader::Read(const std::string& path,
                            const FilteredDataset& dataset,
                            const Extent& extent, const Box& box,
                            const ShardMemory& memory) {
  const bool is_there = file_.is_open() && file_.name() == path &&
                        dataset_ == dataset.path &&
                        box_.offset == extent.box.offset;
  if (!is_there) {
    BELAY_RETURN_IF_ERROR(InFile(path, ReadChunk(path, dataset, extent)));
  }
  const int64_t size = memory.element_size;
  ForEachRun(box, box_, memory.box, [&](const Run& run) {
    std::memcpy(memory.data + run.b * size, chunk_.data() + run.a * size,
                run.length * size);
  });
  return absl::OkStatus();
}

}  // namespace belay
