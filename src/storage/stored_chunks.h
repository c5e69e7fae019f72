// Whether data files hold what their chunks are said to be behind filters.

#ifndef BELAY_STORAGE_STORED_CHUNKS_H_
#define BELAY_STORAGE_STORED_CHUNKS_H_

#include <string>

#include "belay/status.h"
#include "plan/plan.h"

namespace belay {

// Checks that the stored bytes of each chunk with filters can be what it is
// said to be, and that no chunk shares bytes of a file with another one, or
// with a dataset without filters. Looks into files of which more is said
// together than is usual: more than 64 MiB of values that have passed filters,
// and 8 bytes of them for each byte of their file. What filters of plugins make
// of a byte is not known: of a dataset for which it is more than deflate makes,
// the chunk of most bytes for each stored one is undone, by libhdf5 in a
// process of its own. Takes memory for the places of chunks, as much as a file
// of its size may. Requires datasets and files of an index that was
// read. Files that are not there hold nothing. Errors: DataLoss - they cannot,
// or they do; ResourceExhausted; those of
//   ChunkFile.
Status CheckStoredChunks(const std::string& directory,
                         const SavedCheckpoint& saved);

// The same, and looks into all files.
Status CheckAllStoredChunks(const std::string& directory,
                            const SavedCheckpoint& saved);

}  // namespace belay

#endif  // BELAY_STORAGE_STORED_CHUNKS_H_
