// Tells the program, or whoever reads stderr, what belay does.

#ifndef BELAY_CORE_LOG_H_
#define BELAY_CORE_LOG_H_

#include <string_view>

#include "belay/log.h"

namespace belay {

// Whether anybody wants messages of this level.
bool IsLogged(LogLevel level);

// Hands a message to the sink, if it wants it, as PrintableText.
void Log(LogLevel level, std::string_view message);

}  // namespace belay

#endif  // BELAY_CORE_LOG_H_
