// Log messages for the program or for stderr.

#ifndef BELAY_CORE_LOG_H_
#define BELAY_CORE_LOG_H_

#include "belay/log.h"

namespace belay {

// Returns true if messages of this level reach the sink.
bool IsLogged(LogLevel level);

// Lets messages of the level kInfo be printed where neither the program nor
// BELAY_LOG says what is. For this process, from now on.
void LogInfoByDefault();

// Hands a message to the sink, as PrintableText.
void Log(LogLevel level, std::string_view message);

}  // namespace belay

#endif  // BELAY_CORE_LOG_H_
