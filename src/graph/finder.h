// Finding what is named in a list. Pure.

#ifndef BELAY_GRAPH_FINDER_H_
#define BELAY_GRAPH_FINDER_H_

#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "base/text.h"

namespace belay {

// Finds what is named in a list. Two lists that are compared mostly have the
// same order, so the place in the other list is tried first.
template <typename Named>
class Finder {
 public:
  explicit Finder(const std::vector<Named>& all) : all_(all) {}

  const Named* Find(const std::string& name, size_t place) {
    if (place < all_.size() && all_[place].name == name) return &all_[place];
    if (by_name_.empty()) {
      for (const Named& one : all_) by_name_.emplace(AbslView(one.name), &one);
    }
    const auto found = by_name_.find(AbslView(name));
    return found == by_name_.end() ? nullptr : found->second;
  }

 private:
  const std::vector<Named>& all_;
  absl::flat_hash_map<absl::string_view, const Named*> by_name_;
};

}  // namespace belay

#endif  // BELAY_GRAPH_FINDER_H_
