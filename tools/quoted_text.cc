#include <algorithm>

#include "number_text.h"

namespace belay::tools {

std::string PrintableName(const std::string& name) {
  std::string quoted = QuotedText(name);
  return quoted.size() == name.size() + 2 ? name : quoted;
}

size_t WidthOf(std::string_view text) {
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(),
      [](char c) { return (static_cast<unsigned char>(c) & 0xc0U) != 0x80; }));
}

std::string Padded(std::string text, size_t width) {
  const size_t have = WidthOf(text);
  if (have < width) text.append(width - have, ' ');
  return text;
}

}  // namespace belay::tools
