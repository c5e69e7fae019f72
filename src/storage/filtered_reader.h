// Reads datasets whose chunks pass filters, in processes without libhdf5 where
// the filters are known.

#ifndef BELAY_STORAGE_FILTERED_READER_H_
#define BELAY_STORAGE_FILTERED_READER_H_

#include <list>

#include "absl/container/flat_hash_map.h"
#include "format/file_reader.h"
#include "hdf5/guarded_file.h"
#include "plan/shards.h"
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

  // A stored chunk, and its bytes once its filters are undone.
  struct Place {
    h5::StoredChunk stored;
    int64_t bytes = 0;
    // The most bytes that the stored ones can unpack to, if that is known.
    std::optional<int64_t> most_bytes;
  };

  // Calls `visit` with each chunk, and ends with the first error. Takes memory
  // of the budget of the file for where they lie, and none for chunks.
  // Errors: those of Read, and of `visit`.
  Status ForEachPlace(const FilteredDataset& dataset,
                      absl::FunctionRef<Status(const Place&)> visit);

  // Returns the corner of the chunk that ForEachPlace visits as this number, as
  // Read takes it. Requires a dataset whose places were visited.
  Shape FindCorner(const FilteredDataset& dataset, int64_t number) const;

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

// Keeps one file open, and the chunks that were read last, so that the filters
// of a chunk that is read in parts are undone once. Move only. Filters of
// plugins are undone by libhdf5, in a process of its own.
class FilteredReader {
 public:
  // Keeps chunks of at most `kept_bytes` together, and always the last one.
  explicit FilteredReader(int64_t kept_bytes = 0) : kept_bytes_(kept_bytes) {}
  // Reads the part `box` of one chunk, `extent`, of a dataset in the file
  // `path`.
  // Errors: DataLoss - no such file or dataset, or a damaged one;
  //   FailedPrecondition - HDF5 does not have a filter; ResourceExhausted - no
  //   memory for the chunk; Internal.
  Status Read(const std::string& path, const FilteredDataset& dataset,
              const Extent& extent, const Box& box, const ShardMemory& memory);

  // Undoes the filters of the chunk that begins at `corner`, and keeps nothing
  // of it: libhdf5 takes the memory, within the limits of its process. For
  // filters of plugins.
  // Errors: as Read.
  Status TryChunk(const std::string& path, const FilteredDataset& dataset,
                  const Shape& corner);

  // Lets go of the file and of all chunks; a second call does nothing.
  void Close();

  // Returns the number of chunks read since it was asked for last.
  int64_t TakeChunks() { return std::exchange(chunks_, 0); }

 private:
  struct Chunk {
    std::string name;  // of file, dataset and corner
    Box box;           // of the bytes
    std::string bytes;
  };
  using Chunks = std::list<Chunk>;

  Status ReadChunk(const std::string& path, const FilteredDataset& dataset,
                   const Extent& extent, Chunk& chunk);
  Status ReadByHdf5(const std::string& path, const FilteredDataset& dataset,
                    Chunk& chunk);
  Status AskHdf5(const std::string& path, const FilteredDataset& dataset,
                 const Box& box, std::string& bytes);
  // Drops chunks until there is room for `bytes` more. Returns the memory of
  // one of them.
  std::string MakeRoom(int64_t bytes);

  std::unique_ptr<ChunkFile> own_file_;
  std::string guarded_path_;
  std::optional<h5::GuardedFile> guarded_file_;
  int64_t kept_bytes_;
  int64_t held_bytes_ = 0;
  Chunks held_;  // the one that was used last is the first
  absl::flat_hash_map<std::string, Chunks::iterator> by_name_;
  int64_t chunks_ = 0;
};

}  // namespace belay

#endif  // BELAY_STORAGE_FILTERED_READER_H_
