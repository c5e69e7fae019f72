// Reads datasets with filtered chunks, without libhdf5 in this process where
// the filters are known.

#ifndef BELAY_STORAGE_FILTERED_READER_H_
#define BELAY_STORAGE_FILTERED_READER_H_

#include <list>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "belay/status.h"
#include "format/file_reader.h"
#include "hdf5/guarded_file.h"
#include "plan/plan.h"
#include "plan/shards.h"
#include "storage/index_file.h"

namespace belay {

class ChunkFile;

// Keeps one file open, and caches the chunks read last, so that the filters of
// a chunk that is read in parts are undone once. Move only. A separate process
// with libhdf5 undoes filters of plugins.
class FilteredReader {
 public:
  // Caches at most `kept_bytes` of chunks, but always the last chunk.
  explicit FilteredReader(int64_t kept_bytes = 0);
  FilteredReader(FilteredReader&&) noexcept;
  FilteredReader& operator=(FilteredReader&&) noexcept;
  ~FilteredReader();

  // Reads the part `box` of one chunk, `extent`, of a dataset in the file
  // `path`.
  // Errors: DataLoss - no such file or dataset, or a damaged one;
  //   FailedPrecondition - HDF5 does not have a filter; ResourceExhausted - no
  //   memory for the chunk; Internal.
  Status Read(const std::string& path, const FilteredDataset& dataset,
              const Extent& extent, const Box& box, const ShardMemory& memory);

  // Undoes the filters of the chunk that begins at `corner` and discards the
  // result. libhdf5 allocates the memory, within the limits of its process. For
  // filters of plugins.
  // Errors: as Read.
  Status TryChunk(const std::string& path, const FilteredDataset& dataset,
                  const Shape& corner);

  // Closes the file and drops all chunks; a second call does nothing.
  void Close();

  // Returns the number of chunks read since the previous call.
  int64_t TakeChunks() { return std::exchange(chunks_, 0); }

 private:
  struct Chunk {
    std::string name;  // file, dataset and corner
    Box box;           // the box that `bytes` holds
    std::string bytes;
  };
  using Chunks = std::list<Chunk>;

  Status ReadChunk(const std::string& path, const FilteredDataset& dataset,
                   const Extent& extent, Chunk& chunk);
  Status ReadByHdf5(const std::string& path, const FilteredDataset& dataset,
                    Chunk& chunk);
  Status AskHdf5(const std::string& path, const FilteredDataset& dataset,
                 const Box& box, std::string& bytes);
  // Drops chunks until `bytes` more fit. Returns the memory of one of them for
  // reuse.
  std::string MakeRoom(int64_t bytes);

  std::unique_ptr<ChunkFile> own_file_;
  std::string guarded_path_;
  std::optional<h5::GuardedFile> guarded_file_;
  int64_t kept_bytes_ = 0;
  int64_t held_bytes_ = 0;
  Chunks held_;  // most recently used first
  absl::flat_hash_map<std::string, Chunks::iterator> by_name_;
  int64_t chunks_ = 0;
};

// Checks that the stored bytes of each filtered chunk can unpack to its size,
// and that no chunk shares bytes of a file with another chunk or with an
// unfiltered dataset. Reads only files with unusual claims: more than 64 MiB of
// filtered values in all files, and at least 8 bytes of them per byte of the
// file. Filters of plugins may compress by any ratio: if a dataset claims more
// than deflate can achieve, libhdf5 unpacks the chunk with the highest ratio in
// a separate process. Takes memory for the places of chunks, within the file's
// budget. Requires datasets and files of an index that was read. Missing files
// pass.
// Errors: DataLoss - chunks cannot unpack, or share bytes; ResourceExhausted;
//   those of ChunkFile.
Status CheckStoredChunks(const std::string& directory,
                         const SavedCheckpoint& saved);

// Like CheckStoredChunks, but checks all files.
Status CheckAllStoredChunks(const std::string& directory,
                            const SavedCheckpoint& saved);

}  // namespace belay

#endif  // BELAY_STORAGE_FILTERED_READER_H_
