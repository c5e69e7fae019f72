// Building and cutting text with std::string_view.
//
// Distributions build Abseil with its own string_view type (Debian 12 does),
// which std::string_view does not convert to: StrCat and StrSplit refuse it.
// Code that has a std::string_view in hand uses these instead.

#ifndef BELAY_BASE_TEXT_H_
#define BELAY_BASE_TEXT_H_

#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace belay {

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

}  // namespace belay

#endif  // BELAY_BASE_TEXT_H_
