#include "restore/restore_stages.h"

#include "core/agreed.h"
#include "core/status_macros.h"

namespace belay {

Agreed<BlockCounts> CompareTogether(CommContext& context,
                                    const std::string& operation,
                                    const ReadBlocks& read) {
  BELAY_RETURN_IF_AGREED(XorToRoot(context, read.registers));
  BELAY_RETURN_IF_AGREED(SumAll(context, read.covered));
  BlockCounts counts;
  BELAY_RETURN_IF_AGREED(OnRoot(context, [&] {
    return CompareChecksums(read.saved, read.plan, operation, read.registers,
                            read.covered, counts);
  }));
  std::vector<int64_t> shared = {counts.verified, counts.partial};
  BELAY_RETURN_IF_AGREED(MaxAll(context, shared));
  return BlockCounts{.verified = shared[0], .partial = shared[1]};
}

}  // namespace belay
