// Reads datasets whose chunks pass filters.

#ifndef BELAY_STORAGE_FILTERED_READER_H_
#define BELAY_STORAGE_FILTERED_READER_H_

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "belay/arrays/box.h"
#include "belay/status.h"
#include "hdf5/guarded_file.h"
#include "plan/plan.h"
#include "plan/shards.h"
#include "storage/chunk_file.h"

namespace belay {

// One file and the chunks that were read last, so that who reads a chunk in
// parts undoes its filters once. Move only. Filters of plugins are undone by
// libhdf5, in a process of its own.
class FilteredReader {
 public:
  // Keeps chunks of at most so many bytes together, and the last one in any
  // case.
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
  // Forgets chunks until there is room for one of so many bytes; returns the
  // memory of one of them.
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
