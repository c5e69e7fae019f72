// Delivering: what one rank reads reaches all ranks that want it.
//
// In rounds, each of two steps with an agreement in between: every rank reads a
// portion of its stream into memory that its node shares, and sends what other
// nodes want of it; then every rank copies what it wants. Two portions of a
// stream take turns, so that one agreement per round is enough. See
// plan/shared_targets.h.

#ifndef BELAY_STORAGE_DELIVER_H_
#define BELAY_STORAGE_DELIVER_H_

#include "mpi/shared_memory.h"
#include "plan/shared_targets.h"
#include "storage/reader.h"

namespace belay {

// Makes the memory through which the ranks of each node deliver. Collective;
// agreed. Same on all ranks: nodes, portion_bytes.
// Errors: those of SharedMemory.
Agreed<SharedMemory> MakeDeliveryMemory(CommContext& context,
                                        const Nodes& nodes,
                                        int64_t portion_bytes);

// Borrows everything. Equal on all ranks: nodes, portion_bytes, stream_bytes.
struct DeliverJob {
  const ReadJob& reading;
  const RankTransits& transits;
  const Nodes& nodes;
  const SharedMemory& memory;  // that MakeDeliveryMemory has made
  int64_t portion_bytes = 0;   // of a multiple of kStreamAlignment
  int64_t stream_bytes = 0;    // of the longest stream
};

// Carries out the orders with a place in a stream, and all deliveries. If any
// rank passes an error nothing more is read. Adds to `counts`. Collective;
// agreed.
// Errors: those of ReadAll and of messages.
Agreed<> DeliverAll(CommContext& context, const Status& mine,
                    const DeliverJob& job, ReadCounts& counts);

}  // namespace belay

#endif  // BELAY_STORAGE_DELIVER_H_
