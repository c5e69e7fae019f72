// Progressions: a sequence of integers as runs of equal steps. What follows a
// rule, as the ends of rows that are equally long do, takes a few words however
// long it is.

#ifndef BELAY_PLAN_PROGRESSIONS_H_
#define BELAY_PLAN_PROGRESSIONS_H_

#include <cstddef>
#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "bytes/wire.h"

namespace belay {

class Progressions {
 public:
  void Append(int64_t value);

  int64_t size() const { return size_; }
  int64_t back() const { return runs_.back().Last(); }  // requires one
  int64_t operator[](int64_t position) const;

  // Of an ascending sequence, the first position whose value is greater than
  // `value`; size() if there is none. In logarithmic time of the runs.
  int64_t UpperBound(int64_t value) const;

  size_t num_runs() const { return runs_.size(); }

  void Put(WireWriter& out) const;
  static Progressions Get(WireReader& in);

 private:
  // first, first + step, ... at positions [begin, begin + count).
  struct Run {
    int64_t begin = 0;
    int64_t first = 0;
    int64_t step = 0;
    int64_t count = 0;

    int64_t Last() const { return first + step * (count - 1); }
  };

  absl::InlinedVector<Run, 1> runs_;  // most are one run
  int64_t size_ = 0;
};

}  // namespace belay

#endif  // BELAY_PLAN_PROGRESSIONS_H_
