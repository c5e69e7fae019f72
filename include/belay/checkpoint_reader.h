// Looks into a committed step without MPI: what it holds, and whether it is
// intact.

#ifndef BELAY_CHECKPOINT_READER_H_
#define BELAY_CHECKPOINT_READER_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "belay/box.h"
#include "belay/dtype.h"
#include "belay/options.h"
#include "belay/status.h"

namespace belay {

// One array of a checkpoint.
struct ArrayInfo {
  std::string key;
  DType dtype = DType::kU8;
  Shape shape;
  int64_t bytes = 0;
  // How it is stored: "contiguous", "chunks 4 x [128, 64]", "3 pieces".
  std::string cut;
};

struct CheckpointInfo {
  std::string path;
  int64_t step = 0;
  int format_major = 0;
  int format_minor = 0;
  FileLayout file_layout = FileLayout::kShared;
  int64_t num_files = 0;
  int64_t bytes = 0;
  bool has_checksums = false;
  std::vector<ArrayInfo> arrays;  // ascending by key
};

// Reads the index of the step directory `path`. Local.
// Errors: NotFound, DataLoss, Unimplemented - as Restore.
StatusOr<CheckpointInfo> ReadCheckpointInfo(const std::string& path);

// What VerifyCheckpoint found.
struct VerifyResult {
  int64_t blocks = 0;
  int64_t bytes = 0;
  // One line per damaged block or file; empty if all is well.
  std::vector<std::string> damage;
};

// Reads every byte of the step directory `path` and compares checksums. Local.
// `progress` is called with the bytes done and the bytes in all; may be empty.
// Errors: as ReadCheckpointInfo. Damage in the data files is no error but is
//   listed in the result.
StatusOr<VerifyResult> VerifyCheckpoint(
    const std::string& path,
    const std::function<void(int64_t, int64_t)>& progress = {});

}  // namespace belay

#endif  // BELAY_CHECKPOINT_READER_H_
