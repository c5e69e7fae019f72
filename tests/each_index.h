// Indices of boxes, one by one.

#ifndef BELAY_TESTS_EACH_INDEX_H_
#define BELAY_TESTS_EACH_INDEX_H_

#include <cstddef>

#include "belay/arrays/box.h"

namespace belay::testing {

// Calls visit(index) for each index of a box, the last axis the fastest.
template <typename Visit>
void ForEachIndex(const Box& box, Visit visit) {
  if (IsEmpty(box)) return;
  Shape index = box.offset;
  for (bool more = true; more;) {
    visit(index);
    more = false;
    for (size_t axis = index.size(); axis-- > 0 && !more;) {
      more = ++index[axis] < box.offset[axis] + box.shape[axis];
      if (!more) index[axis] = box.offset[axis];
    }
  }
}

}  // namespace belay::testing

#endif  // BELAY_TESTS_EACH_INDEX_H_
