// Which transfer writes a save.

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
#include "storage/striping.h"

namespace belay {

// BELAY_TRANSFER: how every save writes, whatever the program says.

// Returns the options of a save into `path`, with the transfer that rank 0's
// environment had when `comm` was duplicated, if it had any. Local; the same on
// all ranks.
// Errors: InvalidArgument - the variable names no transfer.
Agreed<SaveOptions> WithOperatorTransfer(const Comm& comm,
                                         const std::string& path,
                                         const SaveOptions& options);

// Who moves the bytes of a save, and why.

// How the plan of a save fits the stripes of its files. Equal on all ranks.
struct PlannedStripes {
  Striping striping;   // of the first file that has stripes, else of any
  int32_t nodes = 0;   // that write
  StripeUse by_nodes;  // of all files that are striped
  bool is_exact = true;
};

// Counts the stripes that several nodes write. `nodes` has the node of each
// rank, `stripings` that of each file; orders lie in their files. Takes time
// and memory that grow with the orders, for at most 2^21 ranges of stripes and
// one for each order; of more the counts are too large. Rank 0 only.
PlannedStripes CountStripesOfPlan(const SavePlan& plan,
                                  std::span<const int32_t> nodes,
                                  std::span<const Striping> stripings);

struct TransferChoice {
  Transfer transfer = Transfer::kAuto;  // never that
  std::string note;                     // why; empty: for no special reason
};

// Returns `asked` or, of kAuto, what suits runs of that mean length and files
// with these stripes. Files of one rank each are written without MPI, unless by
// HDF5.
TransferChoice ChooseTransfer(Transfer asked, FileLayout layout,
                              int64_t mean_run_bytes,
                              const PlannedStripes& stripes);

// For messages between ranks.
void PutPlannedStripes(WireWriter& out, const PlannedStripes& stripes);
PlannedStripes GetPlannedStripes(WireReader& in);

}  // namespace belay

#endif  // BELAY_SAVE_TRANSFER_CHOICE_H_
