// Read places: the order in which a rank reads.

#ifndef BELAY_PLAN_RESTORE_SORT_READS_H_
#define BELAY_PLAN_RESTORE_SORT_READS_H_

#include <vector>

#include "plan/plan.h"

namespace belay {

// Sorts the orders of one rank by file and place in it, so that files are read
// one after the other and forwards. Arrays mostly lie in a file as they come.
void SortReads(std::vector<ReadOrder>& orders);

}  // namespace belay

#endif  // BELAY_PLAN_RESTORE_SORT_READS_H_
