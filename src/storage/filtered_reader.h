// Reads datasets whose chunks pass filters, in processes without libhdf5 where
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

// Keeps one file open, and the chunks that were read last, so that the filters
// of a chunk that is read in parts are undone once. Move only. Filters of
// plugins are undone by libhdf5, in a process of its own.
class FilteredReader {
 public:
  // Keeps chunks of at most `kept_bytes` together, and always the last one.
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
  int64_t kept_bytes_ = 0;
  int64_t held_bytes_ = 0;
  Chunks held_;  // the one that was used last is the first
  absl::flat_hash_map<std::string, Chunks::iterator> by_name_;
  int64_t chunks_ = 0;
};

// Checks that the stored bytes of each chunk with filters can unpack to its
// size, and that no chunk shares bytes of a file with another chunk, or with a
// dataset without filters. Reads only files with unusual claims: more than 64
// MiB of filtered values in all, and 8 bytes of them for each byte of the file.
// Filters of plugins may compress by any ratio: if a dataset claims more than
// deflate can do, libhdf5 unpacks the chunk with the highest ratio in a process
// of its own. Takes memory for the places of chunks, within the budget of the
// file. Requires datasets and files of an index that was read. Missing files
// pass.
// Errors: DataLoss - they cannot, or they do; ResourceExhausted; those of
//   ChunkFile.
Status CheckStoredChunks(const std::string& directory,
                         const SavedCheckpoint& saved);

// Checks all files likewise.
Status CheckAllStoredChunks(const std::string& directory,
                            const SavedCheckpoint& saved);

}  // namespace belay

#endif  // BELAY_STORAGE_FILTERED_READER_H_
