// Whole rows: what lies side by side in a file is read in one go.
//
// Boxes that are cut along an inner axis have short runs in an array that is
// stored by rows: a request for each. Where ranks want such boxes side by side,
// they are joined, one rank reads them together, and the ranks take what they
// want out of it in memory.

#ifndef BELAY_PLAN_RESTORE_WHOLE_ROWS_H_
#define BELAY_PLAN_RESTORE_WHOLE_ROWS_H_

#include <cstdint>
#include <vector>

#include "plan/coverage.h"
#include "plan/stored/array_datasets.h"

namespace belay {

// Joining an array costs a copy of it, which is worth it where it saves a
// request for so many bytes.
inline constexpr int64_t kBytesPerRequest = int64_t{64} << 10;

// Joins boxes that differ in their place along one axis only, and follow each
// other there, along any axis but the first. Whoever wants one of them wants
// the joined one. The boxes are disjoint; so is what is returned.
std::vector<HeldBox> JoinSideBySide(std::vector<HeldBox> boxes);

// Joins the boxes of one array if that is worth it. Returns the requests that
// are saved; 0: nothing was joined.
int64_t JoinIntoRows(const ArrayDatasets& stored, int64_t element_size,
                     std::vector<HeldBox>& boxes);

}  // namespace belay

#endif  // BELAY_PLAN_RESTORE_WHOLE_ROWS_H_
