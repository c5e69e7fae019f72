// Logs messages to the program's sink or to stderr.

#ifndef BELAY_CORE_LOG_H_
#define BELAY_CORE_LOG_H_

#include "belay/log.h"

namespace belay {

// Returns true if messages of this level reach the sink.
bool IsLogged(LogLevel level);

// Prints messages of level kInfo as well, unless the program or BELAY_LOG has
// set a level. Applies to this process from now on.
void LogInfoByDefault();

// Passes a message to the sink, after PrintableText.
void Log(LogLevel level, std::string_view message);

}  // namespace belay

#endif  // BELAY_CORE_LOG_H_
