#include <algorithm>
#include <cstdint>

#include "absl/strings/str_format.h"
#include "number_text.h"

namespace belay::tools {
namespace {

// The bytes of the UTF-8 character at the start of `text` that prints, or 0.
size_t PrintableBytes(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  if (byte(0) < 0x80) return byte(0) >= 0x20 && byte(0) != 0x7f ? 1 : 0;
  const size_t length = byte(0) >= 0xf0 ? 4 : byte(0) >= 0xe0 ? 3 : 2;
  if (byte(0) < 0xc2 || byte(0) > 0xf4 || text.size() < length) return 0;
  uint32_t code = byte(0) & (0x7fU >> length);
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0U) != 0x80) return 0;
    code = code << 6 | (byte(i) & 0x3fU);
  }
  static constexpr uint32_t kFirst[] = {0, 0, 0xa0, 0x800, 0x10000};
  const bool is_surrogate = code >= 0xd800 && code < 0xe000;
  return code < kFirst[length] || is_surrogate || code > 0x10ffff ? 0 : length;
}

// Moves the first character of `text` to `to`, a byte that does not print as
// \xNN.
void MovePrintable(std::string_view& text, std::string& to) {
  const size_t length = PrintableBytes(text);
  if (length == 0) {
    absl::StrAppendFormat(&to, "\\x%02x", static_cast<uint8_t>(text[0]));
  } else {
    to += text.substr(0, length);
  }
  text.remove_prefix(std::max<size_t>(length, 1));
}

}  // namespace

std::string QuotedText(std::string_view text) {
  std::string quoted = "\"";
  while (!text.empty()) {
    const char c = text[0];
    if (c == '"' || c == '\\') {
      quoted += {'\\', c};
    } else if (c == '\n' || c == '\t' || c == '\r') {
      quoted += {'\\', c == '\n' ? 'n' : c == '\t' ? 't' : 'r'};
    } else {
      MovePrintable(text, quoted);
      continue;
    }
    text.remove_prefix(1);
  }
  return quoted + "\"";
}

std::string PrintableText(std::string_view text) {
  std::string printable;
  while (!text.empty()) {
    if (text[0] == '\n') {
      printable += '\n';
      text.remove_prefix(1);
    } else {
      MovePrintable(text, printable);
    }
  }
  return printable;
}

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
