// Keys: lookup, patterns, and the closest keys to one that is not there.

#ifndef BELAY_CORE_KEYS_H_
#define BELAY_CORE_KEYS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "belay/status.h"

namespace belay {

// Returns how many bytes to insert, remove or replace to turn `a` into `b`; at
// most `limit` + 1.
int64_t EditDistance(std::string_view a, std::string_view b, int64_t limit);

// Finds the stored keys that somebody may have meant by one that is not stored.
class CloseKeys {
 public:
  // `absent` is borrowed. At most `count` keys are kept.
  explicit CloseKeys(std::string_view absent, size_t count = 3);

  // Keeps `key`, borrowed, if it is among the closest so far: at most a third
  // of its bytes differ, its part after the last '/' is the same, or one key
  // lies below the other. Leaves out keys of over 4096 bytes.
  void Offer(std::string_view key);

  std::vector<std::string_view> keys() const;

  // Returns the end of a message, `; close to it: "a", "b"`, or nothing.
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

// Finds keys in a list. If the list and mostly the keys to find ascend, one
// comparison finds a key.
class KeyFinder {
 public:
  // Borrows the texts. Of equal keys the first is found.
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
  bool ascends_;  // no key is there twice
  size_t next_ = 0;
  absl::flat_hash_map<std::string_view, int32_t> positions_;  // once needed
};

// Regular expressions in RE2's syntax, each for whole keys: "enc/.*" does not
// match "my/enc/w". Keys may have any bytes. A copy shares the expressions.
class KeyPatterns {
 public:
  KeyPatterns() = default;

  // Errors: InvalidArgument - one of them is no regular expression.
  static StatusOr<KeyPatterns> Compile(
      const std::vector<std::string>& expressions);

  // The same for the member `keys` of each entry.
  template <typename Entry>
  static StatusOr<KeyPatterns> CompileKeys(const std::vector<Entry>& entries) {
    std::vector<std::string> expressions;
    for (const Entry& entry : entries) expressions.push_back(entry.keys);
    return Compile(expressions);
  }

  // Returns the place of the first expression that matches, or -1.
  int Find(std::string_view key) const;

  // Errors: InvalidArgument - `rewrite` names groups that the expression does
  //   not have.
  Status CheckRewrite(int place, const std::string& rewrite) const;

  // Returns `rewrite` with \0, \1, ... replaced by the groups of that
  // expression. Requires CheckRewrite, and that the expression matches.
  std::string Rewrite(int place, std::string_view key,
                      const std::string& rewrite) const;

  // For each expression 1 if it matches none of the keys, else 0.
  std::vector<int64_t> Unmatched(
      const std::vector<std::string_view>& keys) const;

  // Returns the error of an expression that matches nothing.
  Status NoMatchError(size_t place, const std::vector<std::string_view>& keys,
                      std::string_view option = "keys") const;

  // Returns it for the first expression that matches none of the keys.
  Status CheckAllMatch(const std::vector<std::string_view>& keys,
                       std::string_view option = "keys") const;

 private:
  struct Impl;

  std::shared_ptr<const Impl> impl_;  // null: no expressions
};

}  // namespace belay

#endif  // BELAY_CORE_KEYS_H_
