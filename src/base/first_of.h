// Long lists in messages.

#ifndef BELAY_BASE_FIRST_OF_H_
#define BELAY_BASE_FIRST_OF_H_

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_join.h"
#include "base/text.h"

namespace belay {

// Returns "a; b; and 3 more": the first `most` texts or numbers, and how many
// more there are. Local.
template <typename T>
std::string FirstOf(const std::vector<T>& all, size_t most,
                    std::string_view separator) {
  const size_t shown = std::min(all.size(), most);
  const auto end = all.begin() + static_cast<std::ptrdiff_t>(shown);
  std::string text = absl::StrJoin(all.begin(), end, AbslView(separator));
  if (shown == all.size()) return text;
  return Cat(text, separator, "and ", all.size() - shown, " more");
}

}  // namespace belay

#endif  // BELAY_BASE_FIRST_OF_H_
