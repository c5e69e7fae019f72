// Counting parts: where every rank reads for itself, which reads count for the
// checksums, so that each byte counts once.

#ifndef BELAY_PLAN_RESTORE_COUNTING_PARTS_H_
#define BELAY_PLAN_RESTORE_COUNTING_PARTS_H_

#include <vector>

#include "absl/container/inlined_vector.h"
#include "belay/arrays/box.h"
#include "plan/restore/parts_to_read.h"

namespace belay {

// A part of a wanted box, and whether it counts for the checksum.
struct Part {
  Box box;
  bool counts = false;
};

// Most boxes need not be cut.
using Parts = absl::InlinedVector<Part, 1>;

// Cuts the wanted boxes of one array into disjoint parts so that those that
// count are disjoint over all wants and have the same union as all.
// result[i] belongs to wants[i].
std::vector<Parts> ChooseCounting(const std::vector<Want>& wants);

}  // namespace belay

#endif  // BELAY_PLAN_RESTORE_COUNTING_PARTS_H_
