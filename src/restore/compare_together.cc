#include "restore/compare_together.h"

#include "base/status_macros.h"

namespace belay {

StatusOr<BlockCounts> CompareTogether(Team& team, const std::string& operation,
                                      const ReadBlocks& read) {
  BELAY_RETURN_IF_AGREED(XorToRoot(team, read.registers));
  BELAY_RETURN_IF_AGREED(SumAll(team, read.covered));
  BlockCounts counts;
  BELAY_RETURN_IF_AGREED(OnRoot(team, [&] {
    return CompareChecksums(read.saved, read.plan, operation, read.registers,
                            read.covered, counts);
  }));
  std::vector<int64_t> shared = {counts.verified, counts.partial};
  BELAY_RETURN_IF_AGREED(MaxAll(team, shared));
  return BlockCounts{.verified = shared[0], .partial = shared[1]};
}

}  // namespace belay
