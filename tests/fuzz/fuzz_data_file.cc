// Fed: names, one a line, and behind them a file of HDF5. A dataset that is
// found lies in the file, has the bytes of its shape and its type, and is found
// again; its chunks, where it has some, have the bytes of their shape, and lie
// in the file.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/text.h"
#include "format/bounded_file.h"
#include "format/chunked_dataset.h"
#include "format/file_reader.h"
#include "fuzz_target.h"
#include "hdf5_bytes.h"

namespace belay::fuzz_data_file {
namespace {

constexpr size_t kMaxNames = 64;
constexpr int64_t kMaxChunks = 10'000;
constexpr int64_t kMaxChunkBytes = int64_t{8} << 20;

struct Parts {
  std::vector<std::string> names;
  size_t file = 0;  // where it begins
};

Parts PartsOf(std::string_view input) {
  const size_t found = input.find("\x89HDF");
  Parts parts{.file = found == input.npos ? 0 : found};
  std::string_view names = input.substr(0, parts.file);
  if (names.ends_with('\n')) names.remove_suffix(1);
  for (const std::string_view name : Split(names, '\n')) {
    if (parts.names.size() < kMaxNames) parts.names.emplace_back(name);
  }
  return parts;
}

void CheckDataset(const h5::ContiguousDataset& dataset, int64_t file_bytes) {
  Require(dataset.type.size() >= 8, "a dataset has a type");
  const uint64_t element =
      h5::MetadataReader(std::string_view(dataset.type).substr(4)).Number(4);
  bool is_empty = element == 0;
  for (const int64_t length : dataset.shape) {
    Require(length >= 0, "lengths are not negative");
    is_empty = is_empty || length == 0;
  }
  Require(is_empty == (dataset.bytes == 0),
          "only empty datasets have no bytes");
  if (is_empty) return;
  uint64_t need = element;
  for (const int64_t length : dataset.shape) {
    need *= static_cast<uint64_t>(length);
  }
  Require(need == static_cast<uint64_t>(dataset.bytes),
          "a dataset has the bytes of its shape");
  Require(dataset.offset >= 0 && dataset.bytes <= file_bytes &&
              dataset.offset <= file_bytes - dataset.bytes,
          "a dataset lies in its file");
}

// The first one and the last one.
void ReadChunks(h5::BoundedFile& file, const h5::ChunkedDataset& dataset) {
  Require(dataset.chunk.size() == dataset.shape.size(),
          "a chunk has as many axes as its dataset");
  Require(CheckedNumElements(dataset.chunk).ok(), "chunks have elements");
  const int64_t bytes = NumElements(dataset.chunk) * dataset.element_bytes;
  const StatusOr<int64_t> elements = CheckedNumElements(dataset.shape);
  if (bytes > kMaxChunkBytes || !elements.ok() || *elements == 0) return;
  Shape last(dataset.shape.size());
  for (size_t axis = 0; axis < last.size(); ++axis) {
    const int64_t end = dataset.shape[axis] - 1;
    last[axis] = end - end % dataset.chunk[axis];
  }
  for (const Shape& corner : {Shape(last.size(), 0), last}) {
    const StatusOr<std::string> chunk = h5::ReadChunk(file, dataset, corner);
    Require(!chunk.ok() || std::ssize(*chunk) == bytes,
            "a chunk has the bytes of its shape");
  }
}

void CheckPlaces(h5::BoundedFile& file, const h5::ChunkedDataset& dataset) {
  int64_t number = 0;
  h5::ForEachStoredChunk(
      file, dataset,
      [&](const h5::StoredChunk& chunk) -> Status {
        Require(chunk.bytes >= 0 && chunk.address >= 0 &&
                    chunk.address <= file.size() - chunk.bytes,
                "a chunk lies in its file");
        const Shape corner = h5::FindChunkCorner(dataset, number++);
        for (size_t axis = 0; axis < corner.size(); ++axis) {
          Require(corner[axis] >= 0 && corner[axis] < dataset.shape[axis],
                  "a chunk begins in its dataset");
        }
        return number < kMaxChunks ? absl::OkStatus()
                                   : absl::CancelledError("enough");
      })
      .IgnoreError();
}

void Run(std::string_view input) {
  const auto [names, begin] = PartsOf(input);
  const std::string_view bytes = input.substr(begin);
  h5::BoundedFile file = FileInMemory(bytes);
  StatusOr<h5::FileReader> reader = h5::FileReader::Open(file);
  if (!reader.ok()) return;
  for (const std::string& name : names) {
    const StatusOr<std::optional<h5::ChunkedDataset>> chunked =
        reader->FindChunked(name);
    if (chunked.ok() && chunked->has_value()) {
      ReadChunks(file, **chunked);
      CheckPlaces(file, **chunked);
    }
    const StatusOr<std::optional<h5::ContiguousDataset>> found =
        reader->Find(name);
    if (!found.ok() || !found->has_value()) continue;
    CheckDataset(**found, file.size());
    const auto again = reader->Find(name);
    if (absl::IsResourceExhausted(again.status())) return;
    Require(again.ok() && again->has_value(), "a dataset is found again");
    Require((*again)->offset == (*found)->offset &&
                (*again)->shape == (*found)->shape &&
                (*again)->type == (*found)->type,
            "a dataset is the same when it is found again");
  }
}

void Repair(std::string& input) {
  const Parts parts = PartsOf(input);
  std::string bytes = input.substr(parts.file);
  RepairHdf5(bytes, [&](h5::BoundedFile& file, h5::FileReader& reader) {
    for (const std::string& name : parts.names) {
      reader.Find(name).IgnoreError();
      const auto chunked = reader.FindChunked(name);
      if (chunked.ok() && chunked->has_value()) ReadChunks(file, **chunked);
    }
  });
  input.replace(parts.file, input.npos, bytes);
}

const RegisterFuzzTarget kTarget({"data_file", Run, Repair});

}  // namespace
}  // namespace belay::fuzz_data_file
