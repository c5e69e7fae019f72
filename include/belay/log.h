// Log messages of belay.
//
//   belay::SetLogSink([](belay::LogLevel level, std::string_view message) {
//     my_logger.Write(level >= belay::LogLevel::kWarning, message);
//   });
//
// Without a sink, the environment variable BELAY_LOG decides: "debug", "info",
// "warning" or "error" prints messages of that level and above to stderr, and
// "none" prints nothing. If it is not set, warnings are printed, and also
// messages of the level kInfo once the program has opened a Run (belay/run.h).
// Errors are not, because the caller gets them. An invalid value is treated as
// not set, and rank 0 reports it on stderr.

#ifndef BELAY_LOG_H_
#define BELAY_LOG_H_

#include <cstdint>
#include <functional>
#include <string_view>

#include "belay/cxx20.h"

namespace belay {

enum class LogLevel : uint8_t {
  kDebug = 0,    // duration of each stage of a save or a restore
  kInfo = 1,     // a save or a restore is done; notes of a manager
  kWarning = 2,  // done, but needs attention
  kError = 3,    // failed; the caller gets the same error
};

// Returns "debug", "info", "warning" or "error". Local.
std::string_view LogLevelName(LogLevel level);

// Called with one message of one or more lines, without a final newline and
// safe to print on a terminal. Exceptions are ignored.
using LogSink = std::function<void(LogLevel level, std::string_view message)>;

// Sends all messages of level `least` and above to `sink`, in place of the
// previous sink. An empty sink restores the environment variable. Local, for
// this process. Messages about what all ranks know are logged by rank 0 only,
// in the thread that called belay. May be called at any time, by any thread,
// but not by a sink.
void SetLogSink(LogSink sink, LogLevel least = LogLevel::kInfo);

}  // namespace belay

#endif  // BELAY_LOG_H_
