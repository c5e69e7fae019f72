// The end of an agreed error, " [rank 2 of 4]".

#ifndef BELAY_MPI_RANK_SUFFIX_H_
#define BELAY_MPI_RANK_SUFFIX_H_

#include <string>
#include <string_view>

#include "belay/status.h"

namespace belay {

// Whether the text ends so. Local.
bool NamesItsRank(std::string_view text);

// The text as a terminal may show it, with " [rank R of N]", unless it ends so
// already. Local.
std::string WithRank(std::string_view text, int rank, int num_ranks);

// The same error with `text` at its end, but before the name of a rank, which
// stays the last. Local.
Status InsertBeforeRank(const Status& error, std::string_view text);

}  // namespace belay

#endif  // BELAY_MPI_RANK_SUFFIX_H_
