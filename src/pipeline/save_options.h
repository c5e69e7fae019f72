// Checks of the options of a save.

#ifndef BELAY_PIPELINE_SAVE_OPTIONS_H_
#define BELAY_PIPELINE_SAVE_OPTIONS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "belay/options.h"
#include "belay/status.h"

namespace belay {

// Checks that seconds of a deadline are a number and not negative.
// `start` is the beginning of the message, such as `save "run"`.
// Errors: InvalidArgument - they are not.
Status CheckDeadlineSeconds(std::string_view start, double seconds);

// Checks max_bytes_in_flight, of a save or a restore. `start` as above.
// Errors: InvalidArgument - it is out of range.
Status CheckBytesInFlight(std::string_view start, int64_t bytes);

// Checks numbers and the expressions of arguments. `start` as above.
// Errors: InvalidArgument - one is out of its range; those of CompileArgs.
Status CheckSaveOptions(std::string_view start, const SaveOptions& options);

// Checks in a child process that data can be read again after filters of
// plugins. Call it on one rank: the result is the same on all. Errors:
// FailedPrecondition - a filter is not there in it; those of
//   ChildProcess.
Status CheckFiltersCanBeRead(std::string_view start,
                             const SaveOptions& options);

// Meaning of SaveOptions::check_replicas.
enum class ReplicaChecks : uint8_t {
  kNone = 0,
  kOncePerPlan = 1,
  kEachSave = 2,
};

ReplicaChecks ChecksOf(const SaveOptions& options);

// An option that must be equal on all ranks, as bytes.
struct CommonOption {
  std::string name;
  std::string bytes;
};

// Returns all options except deadline_seconds and cache.
std::vector<CommonOption> CommonSaveOptions(const SaveOptions& options);

}  // namespace belay

#endif  // BELAY_PIPELINE_SAVE_OPTIONS_H_
