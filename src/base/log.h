// Tells the program, or whoever reads stderr, what belay does.

#ifndef BELAY_BASE_LOG_H_
#define BELAY_BASE_LOG_H_

#include <string_view>

#include "belay/log.h"

namespace belay {

// Whether anybody wants messages of this level. Local.
bool IsLogged(LogLevel level);

// Hands a message to the sink, if it wants it, as PrintableText. Local.
void Log(LogLevel level, std::string_view message);

}  // namespace belay

#endif  // BELAY_BASE_LOG_H_
