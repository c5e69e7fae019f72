// Text: building, cutting, quoting, shortening.

#ifndef BELAY_CORE_TEXT_H_
#define BELAY_CORE_TEXT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <typeindex>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "belay/status.h"

namespace belay {

// Building and cutting text with std::string_view.
//
// Distributions build Abseil with its own string_view type (Debian 12 does),
// which std::string_view does not convert to: StrCat and StrSplit refuse it.
// Code that has a std::string_view in hand uses these instead.

// Returns `text` as Abseil's own view type.
inline absl::string_view AbslView(std::string_view text) {
  return absl::string_view(text.data(), text.size());
}

// As absl::StrCat; takes std::string_view as well.
template <typename... Parts>
std::string Cat(const Parts&... parts) {
  const auto argument = [](const auto& part) -> decltype(auto) {
    using Argument = std::decay_t<decltype(part)>;
    if constexpr (std::is_same_v<Argument, std::string_view>) {
      return AbslView(part);
    } else {
      return (part);  // by reference
    }
  };
  return absl::StrCat(argument(parts)...);
}

// Returns the pieces between separators, at least one; borrowed from `text`.
inline std::vector<std::string_view> Split(std::string_view text,
                                           char separator) {
  std::vector<std::string_view> pieces;
  for (size_t end; (end = text.find(separator)) != text.npos;) {
    pieces.push_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  pieces.push_back(text);
  return pieces;
}

// Returns `text` without the spaces at both ends; borrowed from it.
inline std::string_view StripBlanks(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

// Amounts as a person reads them.

// "1 array", "2 arrays".
std::string CountText(int64_t count, std::string_view noun);

// "1.5 MiB".
std::string BytesText(int64_t bytes);

// "3 ms", "0.42 s", "95 s".
std::string SecondsText(double seconds);

// Long lists in messages.

// Returns "a; b; and 3 more": the first `most` texts or numbers, and how many
// more there are.
template <typename T>
std::string FirstOf(const std::vector<T>& all, size_t most,
                    std::string_view separator) {
  const size_t shown = std::min(all.size(), most);
  const auto end = all.begin() + static_cast<std::ptrdiff_t>(shown);
  std::string text = absl::StrJoin(all.begin(), end, AbslView(separator));
  if (shown == all.size()) return text;
  return Cat(text, separator, "and ", all.size() - shown, " more");
}

// Text from elsewhere, as a terminal may show it.
//
// Names in files are written by strangers. What controls a terminal, or turns
// the direction of what follows, is shown as "\x1b".

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

// The beginning of a text of any length.

// For messages: a text of others may be as long as they like.
inline std::string Shortened(std::string_view text, size_t most_bytes = 4096) {
  if (text.size() <= most_bytes) return std::string(text);
  return Cat(text.substr(0, most_bytes), "...");
}

// C++ types in messages.

// Returns the name as a program would write it, such as "sim::Grid".
std::string TypeName(std::type_index type);

}  // namespace belay

#endif  // BELAY_CORE_TEXT_H_
