// Chooses the transfer of a save.

#ifndef BELAY_SAVE_TRANSFER_CHOICE_H_
#define BELAY_SAVE_TRANSFER_CHOICE_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "belay/comm.h"
#include "belay/options.h"
#include "belay/status.h"
#include "core/agreed.h"
#include "core/wire.h"
#include "plan/plan.h"
#include "plan/stripe_use.h"
#include "storage/file_system.h"

namespace belay {

// Returns the options of a save to `path`. If rank 0's environment had
// BELAY_TRANSFER when `comm` was duplicated, they have the transfer that it
// names. Local; equal on all ranks.
// Errors: InvalidArgument - the variable names no transfer.
Agreed<SaveOptions> WithOperatorTransfer(const Comm& comm,
                                         const std::string& path,
                                         const SaveOptions& options);

// The stripes of a save's files, and the nodes that share them. Equal on all
// ranks.
struct PlannedStripes {
  Striping striping;   // of the first file that has stripes, else of any
  int32_t nodes = 0;   // number that write
  StripeUse by_nodes;  // of all striped files
  bool is_exact = true;
};

// Counts the stripes that several nodes write. `nodes` has one element per
// rank, `stripings` one per file; orders must have offsets in their files.
// Looks at up to 2^21 stripe ranges plus one per order. If there are more, the
// counts are too large. Rank 0 only.
PlannedStripes CountStripesOfPlan(const SavePlan& plan,
                                  std::span<const int32_t> nodes,
                                  std::span<const Striping> stripings);

struct TransferChoice {
  Transfer transfer = Transfer::kAuto;  // never kAuto in a result
  std::string note;                     // the reason; empty: no special reason
};

// Returns `asked` or, for kAuto, the transfer that suits this mean run length
// and these stripes. If each rank has its own file, transfers other than hdf5
// become independent.
TransferChoice ChooseTransfer(Transfer asked, FileLayout layout,
                              int64_t mean_run_bytes,
                              const PlannedStripes& stripes);

// Encode and decode stripes for messages between ranks.
void PutPlannedStripes(WireWriter& out, const PlannedStripes& stripes);
PlannedStripes GetPlannedStripes(WireReader& in);

}  // namespace belay

#endif  // BELAY_SAVE_TRANSFER_CHOICE_H_
