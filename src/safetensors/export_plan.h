// Who writes what of an export, and through how much memory.
//
// In:  the planned files, a number of ranks, and a limit.
// Out: for each rank windows, in the order of the files; a window is read from
//      the checkpoint box by box, and written in one go.
// Pure.

#ifndef BELAY_SAFETENSORS_EXPORT_PLAN_H_
#define BELAY_SAFETENSORS_EXPORT_PLAN_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/plan.h"
#include "safetensors/file_plan.h"

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

// Plans windows of at most `max_bytes`, which has to hold one element at least.
std::vector<RankExport> PlanExport(const FilePlan& files, int num_ranks,
                                   int64_t max_bytes);

// For messages between ranks.
std::string EncodeRankExport(const RankExport& part);
RankExport DecodeRankExport(std::string_view bytes);

}  // namespace belay::safetensors

#endif  // BELAY_SAFETENSORS_EXPORT_PLAN_H_
