// What to say about a step that is not there.

#ifndef BELAY_IO_STEPS_MISSING_STEP_H_
#define BELAY_IO_STEPS_MISSING_STEP_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "belay/status.h"

namespace belay {

// "there are 1, 2, 3"; of many only the newest. Local.
std::string StepsText(const std::vector<int64_t>& steps);

// `OPERATION "run/step_00000009": no such step; there are 1, 2, 3`: what is in
// the directory of a step that is not there. Local.
Status NoSuchStep(std::string_view operation, const std::string& path);

}  // namespace belay

#endif  // BELAY_IO_STEPS_MISSING_STEP_H_
