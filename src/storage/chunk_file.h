// A data file whose chunks are read without libhdf5.

#ifndef BELAY_STORAGE_CHUNK_FILE_H_
#define BELAY_STORAGE_CHUNK_FILE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "belay/arrays/box.h"
#include "belay/status.h"
#include "format/chunked_dataset.h"
#include "format/file_reader.h"
#include "plan/plan.h"
#include "storage/index_file.h"

namespace belay {

// The elements of a box, row-major.
struct BoxBytes {
  Box box;
  std::string bytes;
};

// An open file. For one thread at a time.
class ChunkFile {
 public:
  // Errors: those of PosixFile and of h5::FileReader.
  static StatusOr<std::unique_ptr<ChunkFile>> Open(const std::string& path);

  const std::string& path() const { return file_->bytes().name(); }

  // Returns the chunk that begins at `corner`, an element of the array, whole
  // also at the edges.
  // Errors: DataLoss - damaged, or another dataset than the index says;
  //   Unimplemented - HDF5 has stored it in a way that is not read here, or
  //   h5::CanUndo does not know its filters; those of h5::BoundedFile.
  StatusOr<BoxBytes> Read(const FilteredDataset& dataset, const Shape& corner);

  // Where a chunk of a dataset lies, and the bytes that it has behind its
  // filters.
  struct Place {
    h5::StoredChunk stored;
    int64_t bytes = 0;
    // The most that the stored ones can be behind them, if that is known.
    std::optional<int64_t> most_bytes;
  };

  // Calls `visit` with each chunk, and ends with the first error. Takes memory
  // of the budget of the file for where they lie, and none for chunks.
  // Errors: those of Read, and of `visit`.
  Status ForEachPlace(const FilteredDataset& dataset,
                      absl::FunctionRef<Status(const Place&)> visit);

  // Returns the corner of the chunk that was visited so many before, as Read
  // takes it. Requires a dataset whose places were visited.
  Shape CornerOf(const FilteredDataset& dataset, int64_t number) const;

  // Takes from that budget.
  Status Charge(int64_t bytes, std::string_view what) {
    return file_->bytes().Charge(bytes, what);
  }
  int64_t size() const { return file_->bytes().size(); }

 private:
  ChunkFile(std::unique_ptr<Hdf5Bytes> file, h5::FileReader reader)
      : file_(std::move(file)), reader_(std::move(reader)) {}
  StatusOr<const h5::ChunkedDataset*> Find(const FilteredDataset& dataset);

  std::unique_ptr<Hdf5Bytes> file_;
  h5::FileReader reader_;
  absl::flat_hash_map<std::string, h5::ChunkedDataset> datasets_;
};

}  // namespace belay

#endif  // BELAY_STORAGE_CHUNK_FILE_H_
