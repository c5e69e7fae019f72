// Whether all ranks have passed the same, and the end of an agreed error.

#ifndef BELAY_MPI_AGREE_SAME_H_
#define BELAY_MPI_AGREE_SAME_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "belay/status.h"
#include "core/agreed.h"
#include "mpi/collective.h"

namespace belay {

// The end of an agreed error, " [rank 2 of 4]".

// Whether the text ends so.
bool NamesItsRank(std::string_view text);

// The text as a terminal may show it, with " [rank R of N]", unless it ends so
// already.
std::string WithRank(std::string_view text, int rank, int num_ranks);

// The same error with `text` at its end, but before the name of a rank, which
// stays the last.
Status InsertBeforeRank(const Status& error, std::string_view text);

// Whether all ranks have passed the same.
//
// In:  a fingerprint, a number or a text of each rank. Out: OK on all ranks, or
//      the same error on all, which names the lowest rank that differs.

// Fails everywhere if ranks passed different fingerprints: InvalidArgument
// `WHAT differs between ranks: rank R of N has another value than rank 0`, with
// the lowest such rank and its " [rank R of N]". One small all-reduce if equal.
// Agrees on `mine` first, as Agree does. Collective. Same on all ranks: what.
Agreed<> AgreeSame(CommContext& context, std::string_view what,
                   uint64_t fingerprint, const Status& mine = absl::OkStatus());

// The same for a number, which the error tells: `WHAT differs between ranks:
// rank R of N has 71, rank 0 has 70`. Collective. Same on all ranks: what.
Agreed<> AgreeSameNumber(CommContext& context, std::string_view what,
                         int64_t number);

// The same for a text, of which the error tells the end if it is long: `WHAT
// differs between ranks: rank R of N has "a", rank 0 has "b"`. Collective. Same
// on all ranks: what.
Agreed<> AgreeSameText(CommContext& context, std::string_view what,
                       std::string_view text,
                       const Status& mine = absl::OkStatus());

}  // namespace belay

#endif  // BELAY_MPI_AGREE_SAME_H_
