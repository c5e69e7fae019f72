#include "core/text.h"

#include <cxxabi.h>

#include <cstdlib>
#include <iterator>
#include <memory>

#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

namespace belay {

std::string CountText(int64_t count, std::string_view noun) {
  return absl::StrFormat("%d %s%s", count, std::string(noun),
                         count == 1 ? "" : "s");
}

std::string BytesText(int64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? absl::StrFormat("%d B", bytes)
                   : absl::StrFormat("%.1f %s", value, kUnits[unit]);
}

std::string SecondsText(double seconds) {
  if (seconds < 0.0995) return absl::StrFormat("%.0f ms", seconds * 1000);
  if (seconds < 9.95) return absl::StrFormat("%.2g s", seconds);
  return absl::StrFormat("%.0f s", seconds);
}

// --- Printable ---

namespace {

// A UTF-8 character: its code point and its length in bytes, 0 if invalid.
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

// Control characters, line and paragraph separators, and characters that change
// the text direction or are invisible.
constexpr struct {
  uint32_t first, last;
} kUnprintable[] = {{0, 0x1f},        {0x7f, 0x9f},      {0xad, 0xad},
                    {0x61c, 0x61c},   {0x180e, 0x180e},  {0x200b, 0x200f},
                    {0x2028, 0x202e}, {0x2060, 0x206f},  {0xfeff, 0xfeff},
                    {0xfff9, 0xfffb}, {0xe0000, 0xe007f}};

// Returns the bytes of the first character of `text` if it is printable, else
// 0.
size_t PrintableBytes(std::string_view text) {
  const Character first = FirstCharacter(text);
  const bool prints =
      std::ranges::none_of(kUnprintable, [&](const auto& range) {
        return first.code >= range.first && first.code <= range.last;
      });
  return prints ? first.bytes : 0;
}

// Moves the first character of `text` to `to`. Writes a byte that is not
// printable as \xNN.
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
  constexpr std::string_view kEscaped = "\"\\\n\t\r", kNames = "\"\\ntr";
  std::string quoted = "\"";
  while (!text.empty()) {
    const size_t escape = kEscaped.find(text[0]);
    if (escape == kEscaped.npos) {
      MovePrintable(text, quoted);
    } else {
      quoted += {'\\', kNames[escape]};
      text.remove_prefix(1);
    }
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
  return Status(status.code(), PrintableLine(std::string(status.message())));
}

// --- JSON ---

namespace {

// Returns the end of the token at `at`: a string, a comment, or a single
// character.
size_t EndOfToken(std::string_view text, size_t at) {
  const auto after = [&](size_t end, size_t bytes) {
    return end == text.npos ? text.size() : end + bytes;
  };
  const std::string_view rest = text.substr(at);
  if (rest.starts_with("//")) {
    // A NUL also ends the comment.
    return after(text.find_first_of(std::string_view("\n\r\0", 3), at), 1);
  }
  if (rest.starts_with("/*")) return after(text.find("*/", at + 2), 2);
  if (rest[0] != '"') return at + 1;
  size_t end = at;
  do {
    end = text.find_first_of("\"\\", end + 1);
    if (end == text.npos || text[end] == '"') break;
    ++end;  // the escaped character
  } while (end < text.size());
  return after(end < text.size() ? end : text.npos, 1);
}

}  // namespace

std::string TooMuchJson(std::string_view text, int most_levels,
                        int64_t most_values) {
  int levels = 0;
  int64_t values = 0;
  for (size_t at = 0; at < text.size(); at = EndOfToken(text, at)) {
    const char c = text[at];
    if (c == ',') ++values;
    if (c == '[' || c == '{') ++levels;
    if (c == ']' || c == '}') --levels;
    if (levels > most_levels) {
      return Cat("too many levels of JSON (need at most ", most_levels, ")");
    }
    if (values > most_values) {
      return Cat("too many values of JSON (need at most ", most_values, ")");
    }
  }
  return "";
}

// --- Type name ---

namespace {

// Returns the end of the template arguments that the `<` at `begin` opens.
size_t EndOfArguments(std::string_view text, size_t begin) {
  int depth = 0;
  for (size_t i = begin; i < text.size(); ++i) {
    if (text[i] == '<') ++depth;
    if (text[i] == '>' && --depth == 0) return i + 1;
  }
  return text.size();
}

// Removes template arguments of template `name`, except a first argument.
void RemoveArguments(std::string& text, std::string_view name) {
  const std::string begin = ", " + std::string(name) + "<";
  for (size_t at = 0; (at = text.find(begin, at)) != text.npos;) {
    text.erase(at, EndOfArguments(text, at + begin.size() - 1) - at);
  }
}

// Removes default arguments of standard library templates, and the library's
// version namespaces.
std::string AsWritten(std::string text) {
  text = absl::StrReplaceAll(
      text, {{"std::__cxx11::", "std::"}, {"std::__1::", "std::"}});
  for (const char* name :
       {"std::allocator", "std::char_traits", "std::less", "std::hash",
        "std::equal_to", "std::default_delete"}) {
    RemoveArguments(text, name);
  }
  text = absl::StrReplaceAll(text, {{" >", ">"}});
  return absl::StrReplaceAll(
      text, {{"std::basic_string<char>", "std::string"},
             {"std::basic_string_view<char>", "std::string_view"}});
}

}  // namespace

std::string TypeName(std::type_index type) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(
      abi::__cxa_demangle(type.name(), nullptr, nullptr, &status), &std::free);
  return status == 0 ? AsWritten(name.get()) : type.name();
}

}  // namespace belay
