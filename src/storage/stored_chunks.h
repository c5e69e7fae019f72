// Checks the claims of an index about chunks with filters.

#ifndef BELAY_STORAGE_STORED_CHUNKS_H_
#define BELAY_STORAGE_STORED_CHUNKS_H_

#include <string>

#include "belay/status.h"
#include "plan/plan.h"

namespace belay {

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

#endif  // BELAY_STORAGE_STORED_CHUNKS_H_
