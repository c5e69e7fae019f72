#include "storage/filtered_reader.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/catch_exceptions.h"
#include "core/strided_copy.h"
#include "core/text.h"
#include "format/chunk_filters.h"
#include "plan/save_planner.h"

namespace belay {
namespace {

// Names the file, unless the message does.
Status NameFile(const std::string& path, const Status& status) {
  const std::string begin = absl::StrFormat("read \"%s\": ", path);
  if (status.ok() || absl::StartsWith(status.message(), begin)) return status;
  return Status(status.code(), absl::StrCat(begin, status.message()));
}

}  // namespace

void FilteredReader::Close() {
  by_name_.clear();
  held_.clear();
  held_bytes_ = 0;
  own_file_.reset();
  guarded_file_.reset();
}

// Reads a box of the array, of which there are as many bytes.
Status FilteredReader::AskHdf5(const std::string& path,
                               const FilteredDataset& dataset, const Box& box,
                               std::string& bytes) {
  if (!guarded_file_ || guarded_path_ != path) {
    guarded_file_.reset();
    guarded_path_ = path;
    BELAY_ASSIGN_OR_RETURN(
        guarded_file_, h5::GuardedFile::Open(path, 0, h5::WrittenBy::kBelay));
  }
  const Status status = guarded_file_->ReadStored(
      dataset.path, {dataset.dtype, 0, dataset.fields}, dataset.filters,
      FromCorner(box, dataset.box.offset),
      reinterpret_cast<std::byte*>(bytes.data()));
  if (!status.ok()) guarded_file_.reset();  // it may have ended
  return status;
}

Status FilteredReader::TryChunk(const std::string& path,
                                const FilteredDataset& dataset,
                                const Shape& corner) {
  Box one{.offset = corner, .shape = Shape(corner.size(), 1)};
  // A struct is read whole.
  if (!dataset.fields.empty()) one.shape.back() = dataset.box.shape.back();
  std::string bytes(NumElements(one.shape) * DTypeSize(dataset.dtype), '\0');
  return NameFile(path, AskHdf5(path, dataset, one, bytes));
}

Status FilteredReader::ReadByHdf5(const std::string& path,
                                  const FilteredDataset& dataset,
                                  Chunk& chunk) {
  // A few bytes may say that they are a chunk of any size.
  constexpr int64_t kLargeChunk = int64_t{64} << 20;
  const int64_t bytes = NumElements(chunk.box.shape) * DTypeSize(dataset.dtype);
  if (bytes > kLargeChunk) {
    BELAY_RETURN_IF_ERROR(TryChunk(path, dataset, chunk.box.offset));
  }
  chunk.bytes = MakeRoom(bytes);
  chunk.bytes.resize(bytes);
  return AskHdf5(path, dataset, chunk.box, chunk.bytes);
}

Status FilteredReader::ReadChunk(const std::string& path,
                                 const FilteredDataset& dataset,
                                 const Extent& extent, Chunk& chunk) {
  ++chunks_;
  chunk.box = *Intersect(extent.box, dataset.box);
  if (!h5::CanUndo(dataset.filters)) {
    return ReadByHdf5(path, dataset, chunk);
  }
  if (own_file_ == nullptr || own_file_->path() != path) {
    own_file_.reset();
    BELAY_ASSIGN_OR_RETURN(own_file_, ChunkFile::Open(path));
  }
  MakeRoom(NumElements(chunk.box.shape) * DTypeSize(dataset.dtype));
  BELAY_ASSIGN_OR_RETURN(BoxBytes read,
                         own_file_->Read(dataset, chunk.box.offset));
  const std::optional<Box> known = Intersect(read.box, dataset.box);
  if (!known || *known != chunk.box) {
    return absl::DataLossError(
        absl::StrFormat("dataset \"%s\": its chunks are not those that the "
                        "index says (need \"%s\", found \"%s\")",
                        dataset.path, BoxText(chunk.box), BoxText(read.box)));
  }
  chunk.box = std::move(read.box);
  chunk.bytes = std::move(read.bytes);
  return absl::OkStatus();
}

std::string FilteredReader::MakeRoom(int64_t bytes) {
  std::string memory;
  while (!held_.empty() && held_bytes_ + bytes > kept_bytes_) {
    Chunk& last = held_.back();
    held_bytes_ -= std::ssize(last.bytes);
    by_name_.erase(last.name);
    memory = std::move(last.bytes);
    held_.pop_back();
  }
  return memory;
}

Status FilteredReader::Read(const std::string& path,
                            const FilteredDataset& dataset,
                            const Extent& extent, const Box& box,
                            const ShardMemory& memory) {
  WireWriter name;
  name.PutText(path);
  name.PutText(dataset.path);
  name.PutShape(extent.box.offset);
  const auto found = by_name_.find(name.bytes());
  if (found != by_name_.end()) {
    held_.splice(held_.begin(), held_, found->second);
  } else {
    Chunk chunk{.name = name.Take(), .box = {}, .bytes = {}};
    BELAY_RETURN_IF_ERROR(NameFile(path, CatchBadAlloc("a chunk", [&] {
                                     return ReadChunk(path, dataset, extent,
                                                      chunk);
                                   })));
    held_bytes_ += std::ssize(chunk.bytes);
    held_.push_front(std::move(chunk));
    by_name_[held_.front().name] = held_.begin();
  }
  const Chunk& chunk = held_.front();
  const int64_t size = memory.element_size;
  ForEachRun(box, chunk.box, memory.box, [&](const Run& run) {
    std::memcpy(memory.data + run.b * size, chunk.bytes.data() + run.a * size,
                run.length * size);
  });
  return absl::OkStatus();
}

// --- Chunk file ---

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
  // The last axis of an array of structs counts their bytes.
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

Shape ChunkFile::FindCorner(const FilteredDataset& dataset,
                            int64_t number) const {
  Shape corner = dataset.box.offset;
  const Shape in_dataset =
      h5::CornerOfChunk(datasets_.at(dataset.path), number);
  // The dataset of structs lacks the last axis of the array.
  for (size_t axis = 0; axis < in_dataset.size(); ++axis) {
    corner[axis] += in_dataset[axis];
  }
  return corner;
}

}  // namespace belay
