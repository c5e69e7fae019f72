// Finds keys in a list. Where the list ascends, and those that are asked for
// mostly do, each is found by one comparison.

#ifndef BELAY_BASE_KEY_FINDER_H_
#define BELAY_BASE_KEY_FINDER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace belay {

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

}  // namespace belay

#endif  // BELAY_BASE_KEY_FINDER_H_
