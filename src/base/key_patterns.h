// Which of several regular expressions a key matches.

#ifndef BELAY_BASE_KEY_PATTERNS_H_
#define BELAY_BASE_KEY_PATTERNS_H_

#include <cstdint>
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

  // The same of the `keys` of entries, which say what is done with them. Local.
  template <typename Entry>
  static StatusOr<KeyPatterns> CompileKeysOf(
      const std::vector<Entry>& entries) {
    std::vector<std::string> expressions;
    for (const Entry& entry : entries) expressions.push_back(entry.keys);
    return Compile(expressions);
  }

  // Returns the place of the first one that matches the whole key, or -1.
  // Local.
  int Find(std::string_view key) const;

  // Checks that `rewrite` speaks only of groups that the expression has. Local.
  // Errors: InvalidArgument.
  Status CheckRewrite(int place, const std::string& rewrite) const;

  // Returns `rewrite` with \0, \1, ... replaced by what the groups of that
  // expression match. Local. Requires that CheckRewrite is fine with it, and
  // that the expression matches the key.
  std::string Rewrite(int place, std::string_view key,
                      const std::string& rewrite) const;

  // For each expression 1 if it matches none of the keys, else 0. Local.
  std::vector<int64_t> Unmatched(
      const std::vector<std::string_view>& keys) const;

  // Returns the error of an expression that matches nothing, with up to three
  // of the keys that come close. Local.
  Status NoMatchError(size_t place, const std::vector<std::string_view>& keys,
                      std::string_view option = "keys") const;

  // Returns that error for the first expression that matches none of the keys.
  // It is told as one of this option. Local.
  // Errors: InvalidArgument.
  Status CheckAllMatch(const std::vector<std::string_view>& keys,
                       std::string_view option = "keys") const;

 private:
  struct Impl;

  std::shared_ptr<const Impl> impl_;  // null: no expressions
};

}  // namespace belay

#endif  // BELAY_BASE_KEY_PATTERNS_H_
