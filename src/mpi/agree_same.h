// Whether all ranks have passed the same.
//
// In:  a fingerprint, a number or a text of each rank. Out: OK on all ranks, or
//      the same error on all, which names the lowest rank that differs.

#ifndef BELAY_MPI_AGREE_SAME_H_
#define BELAY_MPI_AGREE_SAME_H_

#include <cstdint>
#include <string_view>

#include "belay/status.h"
#include "mpi/collective.h"

namespace belay {

// Fails everywhere if ranks passed different fingerprints: InvalidArgument
// `WHAT differs between ranks: rank R of N has another value than rank 0`, with
// the lowest such rank and its " [rank R of N]". One small all-reduce if equal.
// Agrees on `mine` first, as Agree does. Collective. Same on all ranks: what.
Status AgreeSame(CommContext& context, std::string_view what,
                 uint64_t fingerprint, const Status& mine = absl::OkStatus());

// The same for a number, which the error tells: `WHAT differs between ranks:
// rank R of N has 71, rank 0 has 70`. Collective. Same on all ranks: what.
Status AgreeSameNumber(CommContext& context, std::string_view what,
                       int64_t number);

// The same for a text, of which the error tells the end if it is long: `WHAT
// differs between ranks: rank R of N has "a", rank 0 has "b"`. Collective. Same
// on all ranks: what.
Status AgreeSameText(CommContext& context, std::string_view what,
                     std::string_view text,
                     const Status& mine = absl::OkStatus());

}  // namespace belay

#endif  // BELAY_MPI_AGREE_SAME_H_
