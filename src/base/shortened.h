// The beginning of a text of any length.

#ifndef BELAY_BASE_SHORTENED_H_
#define BELAY_BASE_SHORTENED_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "base/text.h"

namespace belay {

// For messages: a text of others may be as long as they like. Local.
inline std::string Shortened(std::string_view text, size_t most_bytes = 4096) {
  if (text.size() <= most_bytes) return std::string(text);
  return Cat(text.substr(0, most_bytes), "...");
}

}  // namespace belay

#endif  // BELAY_BASE_SHORTENED_H_
