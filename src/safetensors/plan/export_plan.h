// Who writes what of an export, and through how much memory.
//
// In:  the planned files, a number of ranks, and a limit.
// Out: for each rank windows, in the order of the files; a window is read from
//      the checkpoint box by box, and written in one go.
// Pure.

#ifndef BELAY_SAFETENSORS_PLAN_EXPORT_PLAN_H_
#define BELAY_SAFETENSORS_PLAN_EXPORT_PLAN_H_

#include <cstdint>
#include <vector>

#include "belay/status.h"
#include "bytes/wire.h"
#include "plan/plan.h"
#include "safetensors/plan/file_plan.h"

namespace belay::safetensors {

// A range of bytes of one file.
struct Window {
  int32_t file = 0;
  int64_t offset = 0;  // in the file
  int64_t bytes = 0;
  // The shards that it consists of, end to end: [begin, end).
  int32_t begin_shard = 0;
  int32_t end_shard = 0;

  friend bool operator==(const Window&, const Window&) = default;
};

struct RankExport {
  std::vector<Window> windows;
  std::vector<ShardInfo> shards;
};

// The most windows of all ranks together, which rank 0 has in its memory: more
// than an export of 64 TiB has through windows of 16 MiB.
inline constexpr int64_t kMostWindows = int64_t{1} << 22;

// Plans windows of at most `max_bytes`, which has to hold one element at least.
// Errors: InvalidArgument - `max_bytes` makes more than kMostWindows.
StatusOr<std::vector<RankExport>> PlanExport(const FilePlan& files,
                                             int num_ranks, int64_t max_bytes);

// For messages between ranks.
void PutRankExport(WireWriter& out, const RankExport& part);
RankExport GetRankExport(WireReader& in);

}  // namespace belay::safetensors

#endif  // BELAY_SAFETENSORS_PLAN_EXPORT_PLAN_H_
