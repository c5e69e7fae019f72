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

// Returns the options of a save to `path`, with the transfer of BELAY_TRANSFER
// if rank 0's environment had it when `comm` was duplicated. Local; equal on
// all ranks.
// Errors: InvalidArgument - the variable names no transfer.
Agreed<SaveOptions> WithOperatorTransfer(const Comm& comm,
                                         const std::string& path,
                                         const SaveOptions& options);

// Stripes of the files of a save, and the nodes that share them. Equal on all
// ranks.
struct PlannedStripes {
  Striping striping;   // of the first file that has stripes, else of any
  int32_t nodes = 0;   // that write
  StripeUse by_nodes;  // of all files that are striped
  bool is_exact = true;
};

// Counts the stripes that several nodes write. `nodes` is by rank, `stripings`
// by file; orders have offsets in their files. Looks at up to 2^21 ranges of
// stripes and one for each order; with more, counts are too large. Rank 0 only.
PlannedStripes CountStripesOfPlan(const SavePlan& plan,
                                  std::span<const int32_t> nodes,
                                  std::span<const Striping> stripings);

struct TransferChoice {
  Transfer transfer = Transfer::kAuto;  // never that
  std::string note;                     // why; empty: for no special reason
};

// Returns `asked` or, for kAuto, the transfer that suits this mean length of
// runs and these stripes. Files of one rank each need no MPI, except with HDF5.
TransferChoice ChooseTransfer(Transfer asked, FileLayout layout,
                              int64_t mean_run_bytes,
                              const PlannedStripes& stripes);

// For messages between ranks.
void PutPlannedStripes(WireWriter& out, const PlannedStripes& stripes);
PlannedStripes GetPlannedStripes(WireReader& in);

}  // namespace belay

#endif  // BELAY_SAVE_TRANSFER_CHOICE_H_
