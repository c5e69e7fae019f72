// Values that are meant to be on all ranks, and that some ranks lack. Pure.
//
// In:  what all ranks have listed. Out: a text that says how one rank differs
//      from rank 0.

#ifndef BELAY_PLAN_SAVE_KEYS_OF_SOME_RANKS_H_
#define BELAY_PLAN_SAVE_KEYS_OF_SOME_RANKS_H_

#include <string>

#include "plan/listed_ranks.h"

namespace belay {

// What the lowest rank with other such values than rank 0 has or lacks; empty
// if there is none. Pieces of arrays, and values of the program's handlers, may
// be on any ranks.
std::string FindKeysOfSomeRanks(const ListedRanks& listed);

}  // namespace belay

#endif  // BELAY_PLAN_SAVE_KEYS_OF_SOME_RANKS_H_
