// What to say about a step that is not there, or is damaged.

#ifndef BELAY_IO_STEPS_MISSING_STEP_H_
#define BELAY_IO_STEPS_MISSING_STEP_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "belay/status.h"

namespace belay {

// "the steps are 1, 2, 3"; of many only the newest. Local.
std::string StepsText(const std::vector<int64_t>& steps);

// `OPERATION "run/step_00000009": the step has no index.h5; ...`. Local.
Status NoIndex(std::string_view operation, const std::string& path);

// `OPERATION "run/step_00000009": no such step; the steps are 1, 2, 3`: what is
// in the directory of a step that is not there; or NoIndex. Local.
Status NoSuchStep(std::string_view operation, const std::string& path);

// "; use an earlier step, such as 8", for the error of a damaged step; empty if
// `path` is not that of a step in a directory of steps. Local.
std::string EarlierStepHint(const std::string& path);

// DataLoss with the hint at its end; other statuses, and those that have it, as
// they are. Local.
Status WithEarlierStep(const Status& status, const std::string& path);

// The same without it, for whoever tries the earlier step by itself. Local.
Status WithoutEarlierStep(const Status& status);

}  // namespace belay

#endif  // BELAY_IO_STEPS_MISSING_STEP_H_
