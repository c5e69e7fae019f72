// Text from elsewhere, as a terminal may show it.
//
// Names in files are written by strangers. What controls a terminal, or turns
// the direction of what follows, is shown as "\x1b".

#ifndef BELAY_BASE_PRINTABLE_H_
#define BELAY_BASE_PRINTABLE_H_

#include <string>
#include <string_view>

#include "belay/status.h"

namespace belay {

// The text, where what does not print, and what is not UTF-8, is "\x1b" and
// the like. Ends of lines stay, and so do quotes and backslashes.
std::string PrintableText(std::string_view text);

// The same in one line: "\n" for the end of a line.
std::string PrintableLine(std::string_view text);

// The same in double quotes, with "\n", "\"" and "\\" for those.
std::string QuotedText(std::string_view text);

// The status with a message that prints in one line.
Status PrintableStatus(const Status& status);

// Whether all of it is UTF-8.
bool IsUtf8(std::string_view text);

}  // namespace belay

#endif  // BELAY_BASE_PRINTABLE_H_
