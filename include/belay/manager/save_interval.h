// How often to save, so that neither saves nor failures cost much time.

#ifndef BELAY_MANAGER_SAVE_INTERVAL_H_
#define BELAY_MANAGER_SAVE_INTERVAL_H_

#include <string>

#include "belay/status.h"

namespace belay {

// Inputs of AdviseInterval besides the times of a save and of a restore. Times
// are in seconds.
struct AutoInterval {
  // Mean time between failures of the whole job: that of one node divided by
  // the number of nodes.
  double mtbf_seconds = 0;
  // The fraction of the time that saves may take.
  double overhead_budget = 0.035;
};

struct SaveInterval {
  double seconds = 0;  // from the end of one save to the next save
  // Expected losses, as fractions of the duration of a run without saves and
  // failures.
  double saving = 0;
  double failing = 0;  // repeated work, and restores
  std::string reason;  // one line
};

// Returns Young's optimum in Daly's higher order form,
//   sqrt(2 d M) (1 + sqrt(d / (2 M)) / 3 + d / (2 M) / 9) - d
// for saves of d seconds and a failure every M seconds, and M if d >= 2 M
// (J. T. Daly, Future Generation Computer Systems 22, 2006). The result is at
// least d / overhead_budget, so that saves stay within the budget. The time of
// a restore does not depend on the interval, so it affects only the expected
// losses. Local.
// Errors: InvalidArgument - negative times, an MTBF that is not positive, a
//   budget that is not between 0 and 1.
StatusOr<SaveInterval> AdviseInterval(double save_seconds,
                                      double restore_seconds,
                                      const AutoInterval& with);

}  // namespace belay

#endif  // BELAY_MANAGER_SAVE_INTERVAL_H_
