// Values that are meant to be equal on all ranks, and that some ranks lack.

#ifndef BELAY_PYTHON_KEY_CHECK_H_
#define BELAY_PYTHON_KEY_CHECK_H_

#include "seen_state.h"
#include "together.h"

namespace belay::python {

// Logs a warning on rank 0, once for each set of keys, if the ranks do not have
// the same values outside of wrappers such as belay.Piece. `state` is what
// `saved` has bound. Collective.
void WarnOfOtherKeys(const Call& call, const BoundState& state,
                     SavedState& saved);

}  // namespace belay::python

#endif  // BELAY_PYTHON_KEY_CHECK_H_
