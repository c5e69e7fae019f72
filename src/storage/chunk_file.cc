#include "storage/chunk_file.h"

#include <optional>

#include "core/status_macros.h"
#include "core/text.h"
#include "format/chunk_filters.h"
#include "format/element_type.h"

namespace belay {
namespace {

Status IsAnother(const FilteredDataset& dataset, std::string_view what) {
  return absl::DataLossError(Cat("dataset \"", dataset.path, "\": its ", what,
                                 " is not what the index says"));
}

// Checks that the file has what the index says. HDF5 adds parameters to those
// that a filter was given.
Status CheckDataset(const FilteredDataset& dataset,
                    const h5::ChunkedDataset& found) {
  const h5::ElementType type = {dataset.dtype, 0, dataset.fields};
  BELAY_ASSIGN_OR_RETURN(const std::string as_hdf5,
                         h5::EncodedTypeInFile(type));
  BELAY_ASSIGN_OR_RETURN(const std::string as_ours, h5::EncodedType(type));
  if (found.type != as_hdf5 && found.type != as_ours) {
    return IsAnother(dataset, "type");
  }
  if (found.shape != h5::DatasetAxes(type, dataset.box.shape)) {
    return IsAnother(dataset, "shape");
  }
  bool is_same = found.filters.size() == dataset.filters.size();
  for (size_t i = 0; is_same && i < found.filters.size(); ++i) {
    is_same = found.filters[i].id == dataset.filters[i].id;
  }
  return is_same ? absl::OkStatus() : IsAnother(dataset, "list of filters");
}

}  // namespace

StatusOr<std::unique_ptr<ChunkFile>> ChunkFile::Open(const std::string& path) {
  BELAY_ASSIGN_OR_RETURN(std::unique_ptr<Hdf5Bytes> file,
                         Hdf5Bytes::Open(path));
  BELAY_ASSIGN_OR_RETURN(h5::FileReader reader,
                         h5::FileReader::Open(file->bytes()));
  return std::unique_ptr<ChunkFile>(
      new ChunkFile(std::move(file), std::move(reader)));
}

StatusOr<const h5::ChunkedDataset*> ChunkFile::Find(
    const FilteredDataset& dataset) {
  auto known = datasets_.find(dataset.path);
  if (known == datasets_.end()) {
    BELAY_ASSIGN_OR_RETURN(std::optional<h5::ChunkedDataset> found,
                           reader_.FindChunked(dataset.path));
    if (!found) {
      return absl::DataLossError(
          Cat("dataset \"", dataset.path, "\" is not there"));
    }
    BELAY_RETURN_IF_ERROR(CheckDataset(dataset, *found));
    known = datasets_.emplace(dataset.path, *std::move(found)).first;
  }
  return &known->second;
}

StatusOr<BoxBytes> ChunkFile::Read(const FilteredDataset& dataset,
                                   const Shape& corner) {
  BELAY_ASSIGN_OR_RETURN(const h5::ChunkedDataset* found, Find(dataset));
  Shape in_dataset = corner;
  for (size_t axis = 0; axis < corner.size(); ++axis) {
    in_dataset[axis] -= dataset.box.offset[axis];
  }
  const h5::ElementType type = {dataset.dtype, 0, dataset.fields};
  in_dataset = h5::DatasetAxes(type, std::move(in_dataset));
  for (size_t axis = 0; axis < in_dataset.size(); ++axis) {
    if (in_dataset[axis] % found->chunk[axis] != 0) {
      return IsAnother(dataset, "chunk");
    }
  }
  BoxBytes chunk = {.box = {.offset = corner, .shape = found->chunk},
                    .bytes = {}};
  // Of structs the array has the bytes along its last axis.
  if (!dataset.fields.empty()) {
    chunk.box.shape.push_back(found->element_bytes);
  }
  BELAY_ASSIGN_OR_RETURN(chunk.bytes,
                         h5::ReadChunk(file_->bytes(), *found, in_dataset));
  return chunk;
}

Status ChunkFile::ForEachPlace(const FilteredDataset& dataset,
                               absl::FunctionRef<Status(const Place&)> visit) {
  BELAY_ASSIGN_OR_RETURN(const h5::ChunkedDataset* found, Find(dataset));
  const int64_t bytes = h5::ChunkBytes(*found);
  return h5::ForEachStoredChunk(
      file_->bytes(), *found, [&](const h5::StoredChunk& stored) {
        return visit({.stored = stored,
                      .bytes = bytes,
                      .most_bytes = h5::MostUnfilteredBytes(
                          found->filters, stored.left_out, stored.bytes)});
      });
}

Shape ChunkFile::CornerOf(const FilteredDataset& dataset,
                          int64_t number) const {
  Shape corner = dataset.box.offset;
  const Shape in_dataset =
      h5::CornerOfChunk(datasets_.at(dataset.path), number);
  // Of structs the array has the bytes along its last axis.
  for (size_t axis = 0; axis < in_dataset.size(); ++axis) {
    corner[axis] += in_dataset[axis];
  }
  return corner;
}

}  // namespace belay
