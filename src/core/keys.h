// Keys: lookup, patterns, and suggestions for keys that are not stored.

#ifndef BELAY_CORE_KEYS_H_
#define BELAY_CORE_KEYS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "belay/status.h"

namespace belay {

// Returns the number of bytes to insert, remove or replace to turn `a` into
// `b`; at most `limit` + 1.
int64_t EditDistance(std::string_view a, std::string_view b, int64_t limit);

// Finds stored keys that the user may have meant by a key that is not stored.
class CloseKeys {
 public:
  // Borrows `absent`. Keeps at most `count` keys.
  explicit CloseKeys(std::string_view absent, size_t count = 3);

  // Keeps `key` (borrowed) if it is among the closest so far, and at most a
  // third of the bytes differ, the part after the last '/' is equal, or one key
  // is below the other. Ignores keys longer than 4096 bytes.
  void Offer(std::string_view key);

  std::vector<std::string_view> keys() const;

  // Returns the end of a message, `; close to it: "a", "b"`, or "".
  std::string Hint() const;

  // Returns `key is not in the checkpoint (details); close to it: "a"`.
  std::string AbsentText(std::string_view details = {}) const;

 private:
  struct Close {
    int64_t distance;
    std::string_view key;

    friend auto operator<=>(const Close&, const Close&) = default;
  };

  std::string_view absent_;
  size_t count_;
  std::vector<Close> close_;  // ascending
};

// Finds keys in a list. If the list is ascending and the keys to find mostly
// are, each search takes one comparison.
class KeyFinder {
 public:
  // Borrows the strings. Finds the first of equal keys.
  explicit KeyFinder(std::vector<std::string_view> keys)
      : keys_(std::move(keys)),
        ascends_(std::adjacent_find(keys_.begin(), keys_.end(),
                                    std::greater_equal<>()) == keys_.end()) {}

  // Returns the position in the list; -1 if the key is not there.
  int32_t Find(std::string_view key) {
    if (ascends_ && next_ < keys_.size() && keys_[next_] == key) {
      return static_cast<int32_t>(next_++);
    }
    if (positions_.empty()) ListPositions();
    const auto found = positions_.find(key);
    if (found == positions_.end()) return -1;
    next_ = static_cast<size_t>(found->second) + 1;
    return found->second;
  }

 private:
  void ListPositions() {
    positions_.reserve(keys_.size());
    for (size_t i = 0; i < keys_.size(); ++i) {
      positions_.emplace(keys_[i], static_cast<int32_t>(i));
    }
  }

  std::vector<std::string_view> keys_;
  bool ascends_;  // strictly, so that no key appears twice
  size_t next_ = 0;
  absl::flat_hash_map<std::string_view, int32_t> positions_;  // filled lazily
};

// Regular expressions in RE2's syntax that must match whole keys: "enc/.*" does
// not match "my/enc/w". Keys may have any bytes. A copy shares the expressions.
class KeyPatterns {
 public:
  KeyPatterns() = default;

  // Errors: InvalidArgument - an entry is not a regular expression.
  static StatusOr<KeyPatterns> Compile(
      const std::vector<std::string>& expressions);

  // Compiles the member `keys` of each entry.
  template <typename Entry>
  static StatusOr<KeyPatterns> CompileKeys(const std::vector<Entry>& entries) {
    std::vector<std::string> expressions;
    for (const Entry& entry : entries) expressions.push_back(entry.keys);
    return Compile(expressions);
  }

  // Returns about how many bytes the compiled expressions take.
  int64_t ProgramBytes() const;

  // Returns the index of the first expression that matches, or -1.
  int Find(std::string_view key) const;

  // Errors: InvalidArgument - `rewrite` names groups that the expression does
  //   not have.
  Status CheckRewrite(int place, const std::string& rewrite) const;

  // Returns `rewrite` with \0, \1, ... replaced by the groups of expression
  // `place`. Requires CheckRewrite, and that the expression matches.
  std::string Rewrite(int place, std::string_view key,
                      const std::string& rewrite) const;

  // Returns, for each expression, 1 if it matches none of the keys, else 0.
  std::vector<int64_t> Unmatched(
      const std::vector<std::string_view>& keys) const;

  // Returns the error for an expression that matches no key.
  Status NoMatchError(size_t place, const std::vector<std::string_view>& keys,
                      std::string_view option = "keys") const;

  // Returns NoMatchError for the first expression that matches none of the
  // keys.
  Status CheckAllMatch(const std::vector<std::string_view>& keys,
                       std::string_view option = "keys") const;

 private:
  struct Impl;

  std::shared_ptr<const Impl> impl_;  // null: no expressions
};

// Compiles expressions from an untrusted source: each text once, and all within
// a limit, as a few bytes of text can make megabytes of program.
class PatternCache {
 public:
  // Errors: those of KeyPatterns::Compile; ResourceExhausted - the expressions
  //   are too large together.
  StatusOr<KeyPatterns> Compile(const std::string& expression);

 private:
  std::map<std::string, KeyPatterns> all_;
  int64_t bytes_ = 0;
};

// The most parts between "/" that a key may have.
inline constexpr int64_t kMaxKeyParts = 1000;
int64_t CountKeyParts(std::string_view key);

}  // namespace belay

#endif  // BELAY_CORE_KEYS_H_
