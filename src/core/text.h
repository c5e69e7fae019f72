// Text: building, splitting, quoting, shortening.

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

// Distributions such as Debian 12 build Abseil with its own string_view type,
// to which std::string_view does not convert. Use these functions instead of
// absl::StrCat and absl::StrSplit.

inline absl::string_view AbslView(std::string_view text) {
  return absl::string_view(text.data(), text.size());
}

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

// Returns the pieces between separators, at least one piece.
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

inline std::string_view StripBlanks(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

// Such as "1 array" or "2 arrays".
std::string CountText(int64_t count, std::string_view noun);

// Such as "1.5 MiB".
std::string BytesText(int64_t bytes);

// Such as "3 ms", "0.42 s" or "95 s".
std::string SecondsText(double seconds);

// Returns text such as "a; b; and 3 more", with the first `most` strings or
// numbers.
template <typename T>
std::string JoinFirst(const std::vector<T>& all, size_t most,
                      std::string_view separator) {
  const size_t shown = std::min(all.size(), most);
  const auto end = all.begin() + static_cast<std::ptrdiff_t>(shown);
  std::string text = absl::StrJoin(all.begin(), end, AbslView(separator));
  if (shown == all.size()) return text;
  return Cat(text, separator, "and ", all.size() - shown, " more");
}

// Returns text such as "rank 2" or "ranks 2, 5, and 3 more".
inline std::string NameRanks(const std::vector<int>& ranks, size_t most) {
  return Cat(ranks.size() == 1 ? "rank " : "ranks ",
             JoinFirst(ranks, most, ", "));
}

// Returns an error with the joined parts and ": " before its message. Returns
// OK unchanged, without joining the parts.
template <typename... Parts>
Status AddPrefix(const Status& status, const Parts&... parts) {
  if (status.ok()) return status;
  return Status(status.code(), Cat(parts..., ": ", status.message()));
}

// Returns the text in a form that is safe to print on a terminal. Names in
// files come from untrusted writers: characters that control a terminal or
// change the text direction, and bytes that are not UTF-8, become "\x1b" and
// the like. Newlines are preserved.
std::string PrintableText(std::string_view text);

// Like PrintableText, but with "\n" for a newline.
std::string PrintableLine(std::string_view text);

// Like PrintableLine, but in double quotes, with '"' and '\' escaped.
std::string QuotedText(std::string_view text);

Status PrintableStatus(const Status& status);  // as PrintableLine

bool IsUtf8(std::string_view text);

// Returns why the JSON is larger than any in belay's files, or "". Check this
// before parsing, which can take a hundred times the memory of the text. The
// JSON may contain comments.
std::string TooMuchJson(std::string_view text, int most_levels,
                        int64_t most_values = INT64_MAX);

inline std::string Shortened(std::string_view text, size_t most_bytes = 4096) {
  if (text.size() <= most_bytes) return std::string(text);
  return Cat(text.substr(0, most_bytes), "...");
}

// Returns the name of a type as written in source code, such as "sim::Grid".
std::string TypeName(std::type_index type);

}  // namespace belay

#endif  // BELAY_CORE_TEXT_H_
