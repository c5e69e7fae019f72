#include "base/printable.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

namespace belay {
namespace {

// A character of UTF-8: its number, and how many bytes it takes; 0: none.
struct Character {
  uint32_t code = 0;
  size_t bytes = 0;
};

Character FirstCharacter(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  if (byte(0) < 0x80) return {byte(0), 1};
  const size_t length = byte(0) >= 0xf0 ? 4 : byte(0) >= 0xe0 ? 3 : 2;
  if (byte(0) < 0xc2 || byte(0) > 0xf4 || text.size() < length) return {};
  uint32_t code = byte(0) & (0x7fU >> length);
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0U) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3fU);
  }
  static constexpr uint32_t kFirst[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool is_surrogate = code >= 0xd800 && code < 0xe000;
  if (code < kFirst[length] || is_surrogate || code > 0x10ffff) return {};
  return {code, length};
}

// Characters that do something instead of being shown: controls, ends of lines
// and paragraphs, marks that turn the direction of text or cannot be seen.
constexpr struct {
  uint32_t first, last;
} kUnprintable[] = {{0, 0x1f},        {0x7f, 0x9f},      {0xad, 0xad},
                    {0x61c, 0x61c},   {0x180e, 0x180e},  {0x200b, 0x200f},
                    {0x2028, 0x202e}, {0x2060, 0x206f},  {0xfeff, 0xfeff},
                    {0xfff9, 0xfffb}, {0xe0000, 0xe007f}};

// The bytes of the character at the start of `text` if it prints, or 0.
size_t PrintableBytes(std::string_view text) {
  const Character first = FirstCharacter(text);
  const bool prints =
      std::ranges::none_of(kUnprintable, [&](const auto& range) {
        return first.code >= range.first && first.code <= range.last;
      });
  return prints ? first.bytes : 0;
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

bool IsUtf8(std::string_view text) {
  while (!text.empty()) {
    const size_t bytes = FirstCharacter(text).bytes;
    if (bytes == 0) return false;
    text.remove_prefix(bytes);
  }
  return true;
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

std::string PrintableLine(std::string_view text) {
  return absl::StrReplaceAll(PrintableText(text), {{"\n", "\\n"}});
}

Status PrintableStatus(const Status& status) {
  const std::string message(status.message());
  return Status(status.code(), PrintableLine(message));
}

}  // namespace belay
