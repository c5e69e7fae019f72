// What belay does, told while it does it.
//
//   belay::SetLogSink([](belay::LogLevel level, std::string_view message) {
//     my_logger.Write(level >= belay::LogLevel::kWarning, message);
//   });
//
// Without a sink the environment variable BELAY_LOG decides: "debug", "info",
// "warning" or "error" prints messages from that level on to stderr, and
// without it nothing is printed.

#ifndef BELAY_LOG_H_
#define BELAY_LOG_H_

#include <cstdint>
#include <functional>
#include <string_view>

#include "belay/cxx20.h"

namespace belay {

enum class LogLevel : uint8_t {
  kDebug = 0,    // how long each stage of a save or a restore took
  kInfo = 1,     // a save or a restore is done; what a manager notes
  kWarning = 2,  // it is done, but look at this
  kError = 3,    // it has failed; the caller gets the same error
};

// "debug", "info", "warning", "error". Local.
std::string_view LogLevelName(LogLevel level);

// Is called with one message of one line or more, without an end of line, which
// a terminal may show. What it throws is ignored.
using LogSink = std::function<void(LogLevel level, std::string_view message)>;

// Hands all messages from `least` on to `sink` from now on, instead of the one
// from before; an empty one brings the environment variable back. Local, for
// this process. What all ranks know is told by rank 0 only, in the thread that
// called belay. May be called at any time, by any thread, but not by a sink.
void SetLogSink(LogSink sink, LogLevel least = LogLevel::kInfo);

}  // namespace belay

#endif  // BELAY_LOG_H_
