// How often to save: not so seldom that a failure costs much work, not so often
// that saving does.

#ifndef BELAY_SAVE_INTERVAL_H_
#define BELAY_SAVE_INTERVAL_H_

#include <string>

#include "belay/status.h"

namespace belay {

// Seconds. What an interval is advised from, beside the times of a save and of
// a restore.
struct AutoInterval {
  // The mean time between two failures of the whole job: that of one node
  // divided by the number of nodes.
  double mtbf_seconds = 0;
  // The part of the time that saves may take.
  double overhead_budget = 0.035;
};

struct SaveInterval {
  double seconds = 0;  // from the end of a save to the next
  // What is expected to be lost, as parts of the time of a run without either.
  double saving = 0;
  double failing = 0;  // work that is done again, and restores
  std::string reason;  // of one line
};

// Returns the optimum of Young in Daly's higher order form,
//   sqrt(2 d M) (1 + sqrt(d / (2 M)) / 3 + d / (2 M) / 9) - d
// for saves of d seconds and a failure every M seconds, and M where d >= 2 M
// (J. T. Daly, Future Generation Computer Systems 22, 2006), but at least so
// much that saves stay within the budget: d / overhead_budget. A restore takes
// the same time however often one saves, so it only counts in what is expected
// to be lost. Local.
// Errors: InvalidArgument - negative times, an MTBF that is not more than 0, a
//   budget that is not between 0 and 1.
StatusOr<SaveInterval> AdviseInterval(double save_seconds,
                                      double restore_seconds,
                                      const AutoInterval& with);

}  // namespace belay

#endif  // BELAY_SAVE_INTERVAL_H_
