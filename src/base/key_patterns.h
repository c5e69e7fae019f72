// Which of several regular expressions a key matches.

#ifndef BELAY_BASE_KEY_PATTERNS_H_
#define BELAY_BASE_KEY_PATTERNS_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "belay/status.h"

namespace belay {

// Expressions in RE2's syntax, each for whole keys: "enc/.*" is not found in
// "my/enc/w". Any bytes may stand in keys. A copy shares them.
class KeyPatterns {
 public:
  KeyPatterns() = default;

  // Compiles the expressions. Local.
  // Errors: InvalidArgument - one of them is none: names it and the reason.
  static StatusOr<KeyPatterns> Compile(
      const std::vector<std::string>& expressions);

  // Returns the place of the first one that matches the whole key, or -1.
  // Local.
  int Find(std::string_view key) const;

  // Returns `rewrite` with \0, \1, ... replaced by what the groups of that
  // expression match. It has to match the key. Local.
  // Errors: InvalidArgument - the expression has no such group.
  StatusOr<std::string> Rewrite(int place, std::string_view key,
                                const std::string& rewrite) const;

  // Returns an error for the first expression that matches none of the keys,
  // with up to three keys that come close. Local.
  // Errors: InvalidArgument.
  Status CheckAllMatch(const std::vector<std::string_view>& keys) const;

 private:
  struct Impl;

  std::shared_ptr<const Impl> impl_;  // null: no expressions
};

}  // namespace belay

#endif  // BELAY_BASE_KEY_PATTERNS_H_
