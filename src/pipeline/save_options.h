// Whether the options of a save are sound, and equal on all ranks.

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

// Checks the numbers, and the expressions of the arguments. `start` as
// above.
// Errors: InvalidArgument - one is out of its range; those of CompileArgs.
Status CheckSaveOptions(std::string_view start, const SaveOptions& options);

// Checks that what passes filters of plugins can be read again, by a process
// that is started for it. For one rank: it says the same on all.
// Errors: FailedPrecondition - a filter is not there in it; those of
//   ChildProcess.
Status CheckFiltersCanBeRead(std::string_view start,
                             const SaveOptions& options);

// How replicas are compared; see SaveOptions::check_replicas.
enum class ReplicaChecks : uint8_t {
  kNone = 0,
  kOncePerPlan = 1,
  kEachSave = 2,
};

ReplicaChecks ChecksOf(const SaveOptions& options);

// An option that has to be the same on all ranks, as bytes to compare.
struct CommonOption {
  std::string name;
  std::string bytes;
};

// All but deadline_seconds and cache.
std::vector<CommonOption> CommonSaveOptions(const SaveOptions& options);

}  // namespace belay

#endif  // BELAY_PIPELINE_SAVE_OPTIONS_H_
