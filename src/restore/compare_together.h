// Stage verify of what reads a checkpoint.

#ifndef BELAY_RESTORE_COMPARE_TOGETHER_H_
#define BELAY_RESTORE_COMPARE_TOGETHER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "belay/status.h"
#include "io/index/verify.h"
#include "mpi/collective.h"
#include "plan/plan.h"

namespace belay {

// What the ranks have read. Borrows everything.
struct ReadBlocks {
  const SavedCheckpoint& saved;  // rank 0 only, as the next
  const RestorePlan& plan;
  std::vector<uint32_t>& registers;  // of this rank; combined on rank 0
  std::vector<int64_t>& covered;     // of this rank; then of all
};

// Compares the checksums of what all ranks have read together. Collective;
// agreed. Returns the counts of all. Messages begin with `operation`.
// Errors: those of CompareChecksums.
StatusOr<BlockCounts> CompareTogether(CommContext& context,
                                      const std::string& operation,
                                      const ReadBlocks& read);

}  // namespace belay

#endif  // BELAY_RESTORE_COMPARE_TOGETHER_H_
