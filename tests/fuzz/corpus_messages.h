// Inputs of the corpus that ranks send each other.

#ifndef BELAY_TESTS_FUZZ_CORPUS_MESSAGES_H_
#define BELAY_TESTS_FUZZ_CORPUS_MESSAGES_H_

#include <string>
#include <vector>

#include "plan/plan.h"

namespace belay {

// By target, of these checkpoints.
std::vector<std::string> ObjectMessages(
    const std::vector<SavedCheckpoint>& checkpoints);
std::vector<std::string> PlanMessages(
    const std::vector<SavedCheckpoint>& checkpoints);

}  // namespace belay

#endif  // BELAY_TESTS_FUZZ_CORPUS_MESSAGES_H_
