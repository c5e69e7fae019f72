// Predicts how much each rank would read in a restore and what would be
// delivered to other ranks, without access to the data files. For planning a
// job before it runs.

#ifndef BELAY_VALUES_RESTORE_PREVIEW_H_
#define BELAY_VALUES_RESTORE_PREVIEW_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "belay/arrays/layout.h"
#include "belay/checkpoint_reader.h"
#include "belay/options.h"
#include "belay/status.h"

namespace belay {

// The work of one rank.
struct RankPreview {
  int64_t wanted_bytes = 0;
  int64_t read_bytes = 0;
  int64_t num_reads = 0;        // pieces of files, each read by one call
  int64_t delivered_bytes = 0;  // read by other ranks for this one
};

struct RestorePreview {
  std::string path;
  int64_t step = 0;
  int64_t num_arrays = 0;
  ReadSharing read_sharing = ReadSharing::kEachRank;  // never kAuto
  std::string sharing_note;                           // why
  std::vector<RankPreview> ranks;
};

// Plans the restore of all arrays of a step. `layout_of` returns the layout
// that partitions each array; every rank gets each string in full. Local.
// `path` as for CheckpointReader::Open. Only the options about which rank reads
// are used.
// Errors: those of Open and Restore; InvalidArgument - a layout for another
//   number of ranks or axes, or num_ranks is not positive; ResourceExhausted -
//   there are more chunks than the data files can hold.
StatusOr<RestorePreview> PreviewRestore(
    const std::string& path, int num_ranks,
    const std::function<Layout(const ArrayInfo&)>& layout_of,
    const RestoreOptions& options = {});

}  // namespace belay

#endif  // BELAY_VALUES_RESTORE_PREVIEW_H_
