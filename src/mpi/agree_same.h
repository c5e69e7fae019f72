// Agreement that all ranks have passed the same value.

#ifndef BELAY_MPI_AGREE_SAME_H_
#define BELAY_MPI_AGREE_SAME_H_

#include "core/agreed.h"
#include "mpi/collective.h"

namespace belay {

// Returns true if the text ends as an agreed error does, " [rank 2 of 4]".
bool NamesItsRank(std::string_view text);

// Returns the text as a terminal may show it, with that end.
std::string WithRank(std::string_view text, int rank, int num_ranks);

// Returns the error with `text` at its end, but before the name of a rank.
Status InsertBeforeRank(const Status& error, std::string_view text);

// Fails everywhere if ranks passed different fingerprints: InvalidArgument
// `WHAT differs between ranks: rank R of N has another value than rank 0`, with
// the lowest such rank and its " [rank R of N]". One small all-reduce if equal.
// Agrees on `mine` first, as Agree does. Collective. Same on all ranks: what.
Agreed<> AgreeSame(CommContext& context, std::string_view what,
                   uint64_t fingerprint, const Status& mine = absl::OkStatus());

// The same for a number, which the error shows: `WHAT differs between ranks:
// rank R of N has 71, rank 0 has 70`. Collective. Same on all ranks: what.
Agreed<> AgreeSameNumber(CommContext& context, std::string_view what,
                         int64_t number);

// The same for a text, of which the error shows the end. Collective. Same on
// all ranks: what.
Agreed<> AgreeSameText(CommContext& context, std::string_view what,
                       std::string_view text,
                       const Status& mine = absl::OkStatus());

}  // namespace belay

#endif  // BELAY_MPI_AGREE_SAME_H_
