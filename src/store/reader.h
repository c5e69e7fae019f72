// Reading: the boxes of a restore go from the data files into memory.

#ifndef BELAY_STORE_READER_H_
#define BELAY_STORE_READER_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "belay/shard.h"
#include "belay/status.h"
#include "model/plan.h"
#include "model/stored_form.h"

namespace belay {

// What a rank reads. Borrows everything.
struct ReadJob {
  const std::vector<Shard>& shards;
  const RankReads& reads;
  std::string directory;
  const std::vector<std::string>& file_names;
  // Of all blocks of the restore; both empty: no checksums. The bytes that were
  // counted into each block's register are added to `covered`.
  std::span<uint32_t> registers;
  std::span<int64_t> covered;
  std::span<const StoredForm> forms = {};  // of the shards; empty: their own
};

struct ReadCounts {
  int64_t bytes = 0;
  int64_t io_calls = 0;
  int64_t files = 0;
  int64_t staged_bytes = 0;  // the most at once
};

// Reads by plain positional reads. Local. Texts must have their final length.
// Errors: DataLoss - a file is missing or too short; ResourceExhausted - no
// memory to convert; PermissionDenied; Internal.
Status ReadAll(const ReadJob& job, ReadCounts& counts);

}  // namespace belay

#endif  // BELAY_STORE_READER_H_
