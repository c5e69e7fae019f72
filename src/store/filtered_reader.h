// Reads datasets whose chunks pass filters, which only HDF5 can undo.

#ifndef BELAY_STORE_FILTERED_READER_H_
#define BELAY_STORE_FILTERED_READER_H_

#include <cstdint>
#include <string>
#include <utility>

#include "belay/box.h"
#include "belay/status.h"
#include "h5/handle.h"
#include "model/plan.h"
#include "store/shard_memory.h"

namespace belay {

// One file and the chunk that was read last: who reads a chunk in parts reads
// them one after the other. Move only. Readers of several threads take turns,
// because HDF5 is for one thread at a time.
class FilteredReader {
 public:
  FilteredReader() = default;
  FilteredReader(FilteredReader&&) = default;
  FilteredReader& operator=(FilteredReader&&) = default;
  // Lets go of the file, in its turn.
  ~FilteredReader();

  // Reads the part `box` of one chunk, `extent`, of a dataset in the file
  // `path`. Local.
  // Errors: DataLoss - no such file or dataset, or a damaged one;
  //   FailedPrecondition - HDF5 does not have a filter; ResourceExhausted - no
  //   memory for the chunk; Internal.
  Status Read(const std::string& path, const FilteredDataset& dataset,
              const Extent& extent, const Box& box, const ShardMemory& memory);

  // Lets go of the file; a second call does nothing. Local.
  Status Close();

  // Returns the number of chunks read since it was asked for last. Local.
  int64_t TakeChunks() { return std::exchange(chunks_, 0); }

 private:
  Status ReadChunk(const std::string& path, const FilteredDataset& dataset,
                   const Extent& extent);

  h5::Handle file_;
  std::string dataset_;  // what is in the chunk
  Box box_;
  std::string chunk_;
  int64_t chunks_ = 0;
};

}  // namespace belay

#endif  // BELAY_STORE_FILTERED_READER_H_
