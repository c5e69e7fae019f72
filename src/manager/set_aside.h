// Steps that a training went back behind: in a directory of their own, out of
// the way.

#ifndef BELAY_MANAGER_SET_ASIDE_H_
#define BELAY_MANAGER_SET_ASIDE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "belay/manager/newer_steps.h"
#include "belay/status.h"

namespace belay {

// Returns the first name of AsideName that nothing in `dir` has. Local.
// Errors: those of ListDirectory; ResourceExhausted - no number is left.
StatusOr<std::string> NextAside(const std::string& dir,
                                std::string_view prefix);

// What is to be done with newer steps.
struct AsideOrder {
  std::string dir;
  std::string prefix;
  std::string aside;  // as NextAside chooses; made if something is moved there
  NewerSteps how = NewerSteps::kSetAside;
  // Of those that may be deleted, ascending. Others are moved.
  std::vector<int64_t> deletable = {};
  bool durable = true;
};

// What was done with them; ascending.
struct AsideOutcome {
  std::vector<int64_t> moved;
  std::vector<int64_t> deleted;
  std::vector<std::string> notes;  // on steps that were moved, not deleted
};

// Moves or deletes steps, the newest first: wherever it ends, what is left goes
// up to some step. A step with somebody else's file in it is moved, too. Rank 0
// only. `steps` are committed, ascending.
// Errors: InvalidArgument - `aside` is no such name; FailedPrecondition - it is
//   a symbolic link or no directory; those of MakeDirectory, Rename,
//   RemoveStep and SyncDirectory; some steps may be gone then.
StatusOr<AsideOutcome> SetAside(const AsideOrder& order,
                                const std::vector<int64_t>& steps);

}  // namespace belay

#endif  // BELAY_MANAGER_SET_ASIDE_H_
